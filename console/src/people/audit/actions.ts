/** The actions that the audit can be filtered by: all of one kind, or a single one. */

import type { AdminFact, FileFact, JobActionFact } from "../../api/schema";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";

type Action = "job.submitted" | AdminFact["kind"] | FileFact["kind"] | JobActionFact["kind"];
type Group = Action extends `${infer Name}.${string}` ? Name : never;

/** All groups of the API's kinds: the types lack none. */
const GROUPS: Record<Group, true> = {
  action: true,
  budget: true,
  cluster: true,
  credential: true,
  file: true,
  invitation: true,
  job: true,
  link: true,
  member: true,
  quota: true,
  schedule: true,
  scim: true,
  template: true,
  tenant: true,
  token: true,
  user: true,
  webhook: true,
};

interface Choice {
  /** An action, or a group of them with a point at its end, such as `quota.`. */
  value: string;
  label: string;
}

/** The groups of actions, and the single ones that entries have or that are chosen; both in alphabetical order. */
export function actionChoices(entries: readonly { action: string }[], chosen: string | undefined): { groups: Choice[]; single: Choice[] } {
  const groups = (Object.keys(GROUPS) as Group[]).map((group) => ({ value: `${group}.`, label: text(`people.audit.all.${group}`) }));
  const known = new Set(groups.map(({ value }) => value));
  const single = new Set([...entries.map(({ action }) => action), ...(chosen === undefined ? [] : [chosen])]);
  return { groups: sorted(groups), single: sorted([...single].filter((value) => !known.has(value)).map((value) => ({ value, label: visible(value) }))) };
}

function sorted(choices: readonly Choice[]): Choice[] {
  return choices.toSorted((one, other) => one.label.localeCompare(other.label));
}
