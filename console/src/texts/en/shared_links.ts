/** Texts of the page of a shared link. */

export const shared_links = {} as const;
