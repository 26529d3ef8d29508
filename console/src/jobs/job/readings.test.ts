import { beforeEach, expect, test, vi } from "vitest";
import { Readings } from "./readings";

let begun = 0;
let answer: (fresh?: boolean) => void = () => undefined;
const read = () => {
  begun += 1;
  return new Promise<boolean>((resolve) => (answer = (fresh = true) => resolve(fresh)));
};
const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);

beforeEach(() => {
  vi.useFakeTimers();
  begun = 0;
});

test("many changes are one read, at the earliest time that was wanted", async () => {
  const readings = new Readings(read);
  for (let number = 0; number < 100; number += 1) readings.within(5_000);
  await pass(4_000);
  readings.within(500);
  readings.within(5_000);
  await pass(500);
  expect(begun).toBe(1);
  answer();
  await pass(20_000);
  expect(begun).toBe(1);
});

test("a read that takes long is not begun anew, and what changed meanwhile is read once more", async () => {
  const readings = new Readings(read);
  readings.within(500);
  await pass(500);
  for (let number = 0; number < 50; number += 1) {
    readings.within(500);
    await pass(500);
  }
  expect(begun).toBe(1);
  answer();
  await pass(500);
  expect(begun).toBe(2);
  answer();
  await pass(20_000);
  expect(begun).toBe(2);
});

test("an answer that was asked for earlier is followed by another read; a failure is not", async () => {
  const readings = new Readings(read);
  readings.within(500);
  await pass(500);
  answer(false);
  await pass(500);
  expect(begun).toBe(2);
  const failing = vi.fn(() => Promise.reject(new Error("no answer")));
  new Readings(failing).within(0);
  await pass(10_000);
  expect(failing).toHaveBeenCalledTimes(1);
});

test("nothing is read for a page that is gone", async () => {
  const readings = new Readings(read);
  readings.within(500);
  readings.stop();
  readings.within(500);
  await pass(10_000);
  expect(begun).toBe(0);
});
