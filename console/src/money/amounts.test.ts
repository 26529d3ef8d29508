import { expect, test } from "vitest";
import { isReached } from "./amounts";

const usd = (amount: string) => ({ amount, currency: "USD" as const });

test("a threshold is reached from its very amount on", () => {
  expect(isReached(usd("0.799999"), usd("1"), 80)).toBe(false);
  expect(isReached(usd("0.800000"), usd("1"), 80)).toBe(true);
  expect(isReached(usd("3"), usd("1"), 100)).toBe(true);
  expect(isReached(null, usd("1"), 80)).toBe(false);
});
