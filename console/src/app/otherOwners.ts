/** Whose jobs an act is about. */

/** The owners that are not the user, each once, in alphabetical order. Nobody before the user is known. */
export function otherOwners(owners: readonly string[], me: string | undefined): string[] {
  if (me === undefined) return [];
  return [...new Set(owners)].filter((owner) => owner !== me).toSorted((one, other) => one.localeCompare(other));
}
