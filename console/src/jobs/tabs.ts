/** The search params of the page of a job: which tab is open, and how its output is read. */

import * as v from "valibot";

export const TABS = ["output", "events", "steps", "script", "files", "same"] as const;
export type Tab = (typeof TABS)[number];

export const JobSearch = v.object({
  tab: v.fallback(v.optional(v.picklist(TABS)), undefined),
  stream: v.fallback(v.optional(v.picklist(["stderr"])), undefined),
  wrap: v.fallback(v.optional(v.boolean()), undefined),
  find: v.fallback(v.optional(v.pipe(v.string(), v.maxLength(200))), undefined),
});
