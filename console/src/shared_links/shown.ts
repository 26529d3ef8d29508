/** What links show, and what they are called. */

import type { LinkView, Shown } from "../api/schema";
import { text } from "../texts";

export const SHOWN: readonly Shown[] = ["output", "why", "cost", "script"];

/** What a link shows, in words; of a newer gateway's parts none. */
export function whatOf({ shows }: Pick<LinkView, "shows">): string {
  const known = SHOWN.filter((each) => shows.includes(each)).map((each) => text(`shared_links.shown.${each}`));
  return [text("shared_links.shown.job"), ...known].join(", ");
}

/** The name that its owner gave to a link, or a part of its id. */
export function nameOf({ id, name }: Pick<LinkView, "id" | "name">): string {
  return name || text("shared_links.unnamed", { id: id.slice(0, 6) });
}
