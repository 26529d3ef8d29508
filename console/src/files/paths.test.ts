import { expect, test } from "vitest";
import { placed, proposed } from "./actions";
import { crumbs, join, mayWrite, nameOf, parentOf } from "./paths";

test("a path is its folder and its name", () => {
  for (const path of ["data", "data/a b", "data/x/%2e%2e", "shared/ü/<b>"]) {
    expect(join(parentOf(path), nameOf(path))).toBe(path);
  }
});

test("crumbs lead from the root to the path", () => {
  expect(crumbs("")).toEqual([]);
  expect(crumbs("data/a/b").map(({ path }) => path)).toEqual(["data", "data/a", "data/a/b"]);
});

test.each([
  ["bucket", "data/x", "member", true],
  ["bucket", "", "owner", false],
  ["bucket", "data", "viewer", false],
  ["bucket", "shared/x", "member", false],
  ["bucket", "shared", "admin", true],
  ["bucket", "shared-not", "member", true],
  ["folder", "home", "owner", false],
] as const)("in the %s, %s: a %s may write: %s", (root, path, role, may) => {
  expect(mayWrite(root, path, role)).toBe(may);
});

test("one file goes to a path or into a folder, several go into a folder", () => {
  expect(placed(["data/a"], "outputs/b")).toEqual([{ source: "data/a", destination: "outputs/b" }]);
  expect(placed(["data/a"], "shared/")).toEqual([{ source: "data/a", destination: "shared/a" }]);
  expect(placed(["data/a", "data/b"], "outputs").map((move) => move.destination)).toEqual(["outputs/a", "outputs/b"]);
  expect(proposed(["data/a", "data/b"])).toBe("data/");
});
