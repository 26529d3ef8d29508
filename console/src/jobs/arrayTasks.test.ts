import { describe, expect, it } from "vitest";
import { arrayOf, taskCount, taskOf, without } from "./arrayTasks";

/** The tasks of a notation, spelled out. */
function spelled(tasks: string): Set<number> {
  const found = new Set<number>();
  for (const part of tasks.replace(/%.*/, "").split(",").filter(Boolean)) {
    const [range = "", step = "1"] = part.split(":");
    const [first = "", last = first] = range.split("-");
    for (let task = Number(first); task <= Number(last); task += Number(step)) found.add(task);
  }
  return found;
}

describe("tasks of an array", () => {
  it("are counted without spelling them out", () => {
    expect(taskCount("0-4,7,10-20:2%3")).toBe(12);
    expect(taskCount("0-999999")).toBe(1_000_000);
    expect(taskCount("")).toBe(0);
    expect(taskCount("1,2,...")).toBe(3);
  });

  it("lose exactly the one that is taken away, whichever it is", () => {
    for (const tasks of ["0-9", "3", "0-20:5", "1-3,7,9-11%2", "0-1", "5-5", "0-10:3,4"]) {
      for (let task = 0; task < 22; task += 1) {
        const wanted = spelled(tasks);
        wanted.delete(task);
        const rest = without(tasks, task);
        expect(spelled(rest)).toEqual(wanted);
        expect(taskCount(rest)).toBe(wanted.size);
      }
    }
  });

  it("keep their limit", () => {
    expect(without("0-3%2", 0)).toBe("1-3%2");
  });

  it("are named by their array and number", () => {
    expect([arrayOf("42_7"), taskOf("42_7"), arrayOf("42"), taskOf("42")]).toEqual(["42", 7, "42", null]);
  });
});
