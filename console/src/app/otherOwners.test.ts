import { expect, test } from "vitest";
import { otherOwners } from "./otherOwners";

test("the owners of jobs that are not the user's own are named once", () => {
  expect(otherOwners(["grace", "ada", "bob", "grace"], "ada")).toEqual(["bob", "grace"]);
  expect(otherOwners(["ada"], "ada")).toEqual([]);
  expect(otherOwners(["grace"], undefined)).toEqual([]);
});
