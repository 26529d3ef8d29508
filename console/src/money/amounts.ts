/** Amounts of the API as they are shown. What is not known is said, and is never zero. */

import type { Money } from "../api/schema";
import { text } from "../texts";
import { micro } from "../ui/decimal";
import { bareAmount, money } from "../ui/format";

/** An amount with its currency. */
export function amount(given: Money | null | undefined): string {
  return given === null || given === undefined ? text("money.unknown") : money(Number(given.amount), given.currency);
}

/** An amount below a head that names the currency. The exports have all digits. */
export function bare(given: Money | null | undefined): string {
  return given === null || given === undefined ? text("money.unknown") : bareAmount(Number(given.amount));
}

/** The part of a limit that is used; more than 1 beyond it. A limit of zero is used up. */
export function share(used: Money, limit: Money): number {
  const whole = micro(limit.amount);
  return whole === 0n ? 1 : Number((micro(used.amount) * 10_000n) / whole) / 10_000;
}

/** Whether an amount has reached so many percent of a limit; not, while the amount is not known. */
export function isReached(used: Money | null, limit: Money, percent: number): boolean {
  return used !== null && micro(used.amount) * 100n >= micro(limit.amount) * BigInt(percent);
}

/** The amount in an input as the API takes it; null for what is none. */
export function written(input: string): string | null {
  const given = input.trim().replace(",", ".");
  return /^\d{1,9}(\.\d{1,6})?$/.test(given) ? given : null;
}
