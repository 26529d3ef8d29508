import { expect, test, vi } from "vitest";
import { endPage, isBeingLeft, whenLeft } from "./leaving";

test("the end of a page is told once to those who still listen", () => {
  const [told, gone] = [vi.fn(), vi.fn()];
  whenLeft(told);
  whenLeft(gone)();
  expect(isBeingLeft()).toBe(false);
  endPage();
  endPage();
  expect(isBeingLeft()).toBe(true);
  expect(told).toHaveBeenCalledTimes(1);
  expect(gone).not.toHaveBeenCalled();
});
