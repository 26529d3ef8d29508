import { expect, test } from "vitest";
import { partSizeOf, partCount, partRange } from "./plan";

const MIB = 1024 ** 2;

test("the parts cover a file of any size, once", () => {
  for (const size of [1, 5 * MIB, 64 * MIB, 64 * MIB + 1, 1000 * MIB - 7]) {
    for (const partSize of [5 * MIB, 64 * MIB, 100 * MIB]) {
      let at = 0;
      for (let number = 1; number <= partCount(size, partSize); number += 1) {
        const { begin, end } = partRange(number, size, partSize);
        expect(begin).toBe(at);
        expect(end).toBeGreaterThan(begin);
        at = end;
      }
      expect(at).toBe(size);
    }
  }
});

test("the size of parts is found from any that are there, if S3 takes such parts", () => {
  const size = 200 * MIB;
  expect(partSizeOf(size, [{ number: 1, size: 64 * MIB }])).toBe(64 * MIB);
  expect(partSizeOf(size, [{ number: 2, size: 64 * MIB }, { number: 4, size: 8 * MIB }])).toBe(64 * MIB);
  expect(partSizeOf(size, [{ number: 4, size: 3 * MIB }])).toBeNull();
  expect(partSizeOf(size, [])).toBeNull();
});

test("parts of a file of another size tell nothing", () => {
  expect(partSizeOf(100 * MIB, [{ number: 2, size: 64 * MIB }])).toBeNull();
  expect(partSizeOf(100 * MIB, [{ number: 3, size: 64 * MIB }])).toBeNull();
  expect(partSizeOf(200 * MIB, [{ number: 1, size: 64 * MIB }, { number: 2, size: 32 * MIB }])).toBeNull();
});
