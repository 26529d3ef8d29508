/** Exact sums of the API's amounts, which are decimal strings: whole millionths, as the ledger counts. */

const WRITTEN = /^(-?)(\d+)(?:\.(\d{1,6})\d*)?$/;
const DIGITS = 6;
const ONE = 1_000_000n;

/** An amount in millionths. What is no amount counts for nothing. */
export function micro(amount: string): bigint {
  const found = WRITTEN.exec(amount);
  if (found === null) return 0n;
  const [, sign, whole = "0", part = ""] = found;
  const size = BigInt(whole) * ONE + BigInt(part.padEnd(DIGITS, "0"));
  return sign === "-" ? -size : size;
}

/** Millionths as an amount. */
export function decimal(millionths: bigint): string {
  const size = millionths < 0n ? -millionths : millionths;
  return `${millionths < 0n ? "-" : ""}${size / ONE}.${String(size % ONE).padStart(DIGITS, "0")}`;
}

/** The sum of amounts. */
export function sum(amounts: Iterable<string>): string {
  let total = 0n;
  for (const amount of amounts) total += micro(amount);
  return decimal(total);
}
