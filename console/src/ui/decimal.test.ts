import { describe, expect, test } from "vitest";
import { decimal, micro, sum } from "./decimal";

describe("amounts", () => {
  test("are the same after millionths and back", () => {
    for (const amount of ["0.000000", "0.000001", "12.345678", "-3.500000", "900719925474099312.000001"]) {
      expect(decimal(micro(amount))).toBe(amount);
    }
  });

  test("are added exactly, where floating point is not", () => {
    expect(sum(Array.from({ length: 10 }, () => "0.1"))).toBe("1.000000");
    expect(sum(["9007199254740993.000001", "0.000001"])).toBe("9007199254740993.000002");
  });

  test("that cannot be read count for nothing", () => {
    expect(sum(["1.5", "NaN", "", "1e3"])).toBe("1.500000");
  });
});
