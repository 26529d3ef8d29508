/** What each role may do, as docs/concepts/roles-and-scopes.md has it. The gateway decides; pages hide what it would refuse. */

import type { Role } from "../api/schema";

export const ROLES: readonly Role[] = ["viewer", "member", "admin", "owner"];

/** Whether a role includes another one: each has the rights of those before it. */
export function includes(role: Role, needed: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(needed);
}

/** The roles that somebody may give to others: only owners make owners. */
export function grantable(by: Role): readonly Role[] {
  if (!includes(by, "admin")) return [];
  return ROLES.filter((role) => role !== "owner" || by === "owner");
}

interface Other {
  id: string;
  role: Role;
}

/** Whether somebody may change another member's role, or disable them. */
export function mayChange(by: Other, member: Other): boolean {
  if (!includes(by.role, "admin")) return false;
  return member.role !== "owner" || by.role === "owner";
}
