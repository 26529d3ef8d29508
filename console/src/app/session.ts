/**
 * Whose session this browser has, for all tabs. What was read for one person is never shown to another one: when a session
 * ends or changes, the page is loaded anew, which empties everything, and the gateway decides what it shows.
 */

import type { QueryClient } from "@tanstack/react-query";
import { profileQuery } from "../api/queries";
import { endPage } from "../ui/forms/leaving";

const PERSON = "clusterra.person";
/** Stands in place of a person when one has signed out: whoever signs in next is somebody else. */
const NOBODY = "-";
/** What a browser keeps whoever signs in. All else, such as drafts, is a person's own. */
const SHARED = new Set([PERSON, "mantine-color-scheme-value", "clusterra.rail-folded", "clusterra.character-keys"]);

/** Removes what this browser keeps of the person: drafts, and where they scrolled to. */
export function forgetUser(): void {
  localStorage.setItem(PERSON, NOBODY);
  for (const key of Object.keys(localStorage)) if (!SHARED.has(key)) localStorage.removeItem(key);
  sessionStorage.clear();
}

/** Notes who is signed in. True where that is somebody else than before; what was kept of that person is removed. */
export function rememberUser(id: string): boolean {
  const changed = (localStorage.getItem(PERSON) ?? id) !== id;
  if (changed) forgetUser();
  localStorage.setItem(PERSON, id);
  return changed;
}

/** Whom this page was loaded for. */
let ofPage: string | null = null;

/**
 * Whether the page may go on with what it has read. What the browser has noted does not tell: another tab notes a new
 * person before this one knows of them.
 */
export function isOfPage(id: string): boolean {
  ofPage ??= id;
  return ofPage === id;
}

/** The same person goes on as another member, in another tenant: drafts stay, each under its own member. */
export function rememberTenantSwitch(id: string): void {
  localStorage.setItem(PERSON, id);
}

/** Empties the page, and loads an address; the present one again without it. */
export function leave(queries: QueryClient, address?: string): void {
  endPage();
  queries.clear();
  const root = document.getElementById("root");
  if (root !== null) root.hidden = true;
  if (address === undefined) location.reload();
  else location.assign(address);
}

/** What happens when the session has ended or is somebody else's: the page is loaded again, and leads to the sign-in. */
export function whenSessionEnds(queries: QueryClient): () => void {
  let left = false;
  return () => {
    // Where nobody was known yet, the page is just being loaded, and leads to the sign-in by itself.
    if (left || queries.getQueryData(profileQuery.queryKey) === undefined) return;
    left = true;
    leave(queries);
  };
}

/**
 * Calls `changed` when another tab has noted somebody else than this page is of, or that nobody is signed in. It reaches
 * tabs that share no worker with this one, such as those of another release.
 */
export function watchSignedInUser(queries: QueryClient, changed: () => void): void {
  window.addEventListener("storage", ({ key, storageArea }: StorageEvent) => {
    // Without a key everything was removed.
    if (storageArea !== localStorage || (key !== PERSON && key !== null)) return;
    const own = queries.getQueryData(profileQuery.queryKey)?.id;
    const noted = localStorage.getItem(PERSON);
    if (own === undefined || noted === own) return;
    // What this tab has kept since the other one removed everything goes as well.
    if (noted === NOBODY) forgetUser();
    changed();
  });
}

/** A page that the browser kept for "back" may be that of somebody who has signed out since. */
export function watchRestored(): void {
  window.addEventListener("pageshow", (event: PageTransitionEvent) => {
    if (event.persisted) location.reload();
  });
}
