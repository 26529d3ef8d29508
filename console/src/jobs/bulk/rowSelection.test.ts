import { describe, expect, it } from "vitest";
import type { Job } from "../../api/schema";
import { arranged, folded, type Row } from "../rows";
import { selectedOf, selectedPart, NO_SELECTION, toggled, type RowSelection } from "./rowSelection";

function job(id: string, more: Partial<Job> = {}): Job {
  return { job_id: id, name: id, user: "ada", uid: 1, state: "PENDING", partition: "main", submitted_at: "2026-01-01T00:00:00Z", ...more };
}

const JOBS = [job("1"), job("2"), job("42", { array_tasks: "2-9" }), job("42_0"), job("42_1")];

function rowsOf(jobs: readonly Job[]): Map<string, Row> {
  const opened = new Set(["42"]);
  return new Map(arranged(folded(jobs, opened), null).map((row) => [row.kind === "array" ? "array" : row.id, row]));
}

function after(ids: string[], jobs: readonly Job[] = JOBS, selection: RowSelection = NO_SELECTION): RowSelection {
  const rows = rowsOf(jobs);
  return ids.reduce((kept, id) => toggled(kept, rows.get(id) as Row, jobs), selection);
}

function names(selection: RowSelection, jobs: readonly Job[] = JOBS): string[] {
  return selectedOf(selection, jobs).map(({ job_id, array_tasks }) => (array_tasks ? `${job_id}_[]` : job_id));
}

describe("the selection of rows", () => {
  it("has the rows that were selected and not unselected", () => {
    expect(names(after(["2", "1"]))).toEqual(["1", "2"]);
    expect(names(after(["2", "1", "2"]))).toEqual(["1"]);
    expect(names(NO_SELECTION)).toEqual([]);
  });

  it("has all of an array by its one row, or single tasks", () => {
    expect(names(after(["array"]))).toEqual(["42_[]", "42_0", "42_1"]);
    expect(names(after(["42_1"]))).toEqual(["42_1"]);
    expect(names(after(["42_[]"]))).toEqual(["42_[]"]);
    expect(names(after(["array", "42_1"]))).toEqual(["42_[]", "42_0"]);
    expect(names(after(["42_1", "array", "array"]))).toEqual([]);
  });

  it("says of an array how much of it is selected", () => {
    const array = rowsOf(JOBS).get("array") as Row;
    expect(selectedPart(NO_SELECTION, array)).toBe("none");
    expect(selectedPart(after(["42_1"]), array)).toBe("some");
    expect(selectedPart(after(["42_0", "42_1", "42_[]"]), array)).toBe("all");
    expect(selectedPart(after(["array"]), rowsOf(JOBS).get("42_1") as Row)).toBe("all");
  });

  it("can be all, those too that match later, but for single rows", () => {
    expect(names("all", [...JOBS, job("3")])).toHaveLength(6);
    expect(names(after(["1"], JOBS, "all"))).toEqual(["2", "42_[]", "42_0", "42_1"]);
    expect(names(after(["42_0"], JOBS, "all"))).toEqual(["1", "2", "42_[]", "42_1"]);
  });

  it("survives what happens to the jobs", () => {
    const selection = after(["1", "array"]);
    const later = [job("1", { state: "RUNNING" }), job("42", { array_tasks: "3-9" }), job("42_0", { state: "COMPLETED" }), job("42_2"), job("3")];
    expect(names(selection, later)).toEqual(["1", "42_[]", "42_0", "42_2"]);
  });
});
