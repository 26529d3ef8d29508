import { expect, test } from "vitest";
import type { CostEntry } from "../api/schema";
import { costColumns, rowId } from "./costColumns";

test("rows by template are told apart by it, and those without one stay a row", () => {
  const rows = [{ template: "align" }, { template: null }, {}].map((row) => ({ purpose: "job", ...row }) as CostEntry);
  const [what] = costColumns("main", "template");

  expect(what?.head).toBe("Template");
  expect(rows.map((row) => what?.value?.(row))).toEqual(["align", null, null]);
  expect(rows.map((row) => rowId(row, "template"))).toEqual(["job align", "job ", "job "]);
});
