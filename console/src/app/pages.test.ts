import { expect, test } from "vitest";
import { pageOf, PAGES, pagesFor } from "./pages";

test("viewers do not submit, and only admins and owners see Admin", () => {
  const keys = (role: Parameters<typeof pagesFor>[0]) => pagesFor(role).map(({ key }) => key);
  expect(keys("viewer")).not.toContain("submit");
  expect(keys("member")).toContain("submit");
  expect(keys("member")).not.toContain("admin");
  expect(keys("admin")).toHaveLength(PAGES.length);
  expect(keys("owner")).toHaveLength(PAGES.length);
  expect(keys(undefined)).toEqual([]);
});

test.each([
  ["/c/main", "/c/$cluster"],
  ["/c/main/jobs", "/c/$cluster/jobs"],
  ["/c/main/jobs/4711", "/c/$cluster/jobs"],
  ["/c/main/admin/audit", "/c/$cluster/admin"],
  ["/c/main/no-such-page", "/c/$cluster"],
  ["/sign-in", "/c/$cluster"],
])("the page of %s is %s", (path, page) => {
  expect(pageOf(path)).toBe(page);
});
