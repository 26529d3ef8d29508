/** The lists that a person has saved under names, each with the query of its address. */

import type { SavedViewView, ViewToSave } from "../api/schema";

export type ViewedPage = ViewToSave["page"];

/** What the gateway takes: a name without `/` and control characters that begins with no point, and a query of ASCII. */
// oxlint-disable-next-line no-control-regex
const NAME = /^[^\u0000-\u001f\u007f/.][^\u0000-\u001f\u007f/]{0,59}$/;
export const MOST_NAME = 60;
const QUERY = /^[\u0020-\u007e]{0,2000}$/;

export function isName(name: string): boolean {
  return NAME.test(name);
}

/** The query to save, of the search of an address; null where it is too long. */
export function queryOf(search: string): string | null {
  const query = search.replace(/^\?/, "");
  return QUERY.test(query) ? query : null;
}

/** The views with one more, in the order of their names, in place of one with its name. */
export function withView(views: readonly SavedViewView[], view: SavedViewView): SavedViewView[] {
  return [...views.filter(({ name }) => name !== view.name), view].sort((one, other) => (one.name < other.name ? -1 : 1));
}
