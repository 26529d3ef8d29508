/** The sections of Admin, in their order. */

export const SECTIONS = ["members", "roles", "tokens", "service-accounts", "identity-sources", "clusters", "audit"] as const;

export type Section = (typeof SECTIONS)[number];

export function isSection(name: string): name is Section {
  return (SECTIONS as readonly string[]).includes(name);
}
