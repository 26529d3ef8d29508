import { expect, test, vi } from "vitest";
import { PageFocus } from "./pageFocus";

function heading() {
  return { isConnected: true, focus: vi.fn() };
}

test("the first page takes no focus, and another one does once", () => {
  const focus = new PageFocus();
  const [first, second] = [heading(), heading()];
  focus.shown("/c/main/jobs", first, true);
  expect(first.focus).not.toHaveBeenCalled();
  focus.shown("/c/main/jobs/7", second, false);
  focus.shown("/c/main/jobs/7", second, false);
  expect(second.focus).toHaveBeenCalledTimes(1);
});

test("a heading that is drawn anew gets the focus that its page had, and takes it from nothing else", () => {
  const focus = new PageFocus();
  const [first, second, third] = [heading(), heading(), heading()];
  focus.shown("/c/main", heading(), true);
  focus.shown("/c/main/submit", first, false);
  first.isConnected = false;
  focus.shown("/c/main/submit", second, true);
  expect(second.focus).toHaveBeenCalledTimes(1);
  second.isConnected = false;
  focus.shown("/c/main/submit", third, false);
  expect(third.focus).not.toHaveBeenCalled();
});
