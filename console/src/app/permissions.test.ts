import { describe, expect, test } from "vitest";
import { grantable, includes, mayChange, ROLES } from "./permissions";

describe("roles", () => {
  test("each includes those before it, and none after it", () => {
    for (const [at, role] of ROLES.entries()) {
      for (const [other, needed] of ROLES.entries()) expect(includes(role, needed)).toBe(at >= other);
    }
  });

  test("admins give all roles but that of an owner", () => {
    expect(grantable("viewer")).toEqual([]);
    expect(grantable("member")).toEqual([]);
    expect(grantable("admin")).toEqual(["viewer", "member", "admin"]);
    expect(grantable("owner")).toEqual(["viewer", "member", "admin", "owner"]);
  });

  test.each([
    ["admin", "member", true],
    ["admin", "admin", true],
    ["admin", "owner", false],
    ["owner", "owner", true],
    ["member", "viewer", false],
  ] as const)("%s changes %s: %s", (by, of, may) => {
    expect(mayChange({ id: "a", role: by }, { id: "b", role: of })).toBe(may);
  });
});
