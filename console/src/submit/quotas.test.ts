import { expect, test } from "vitest";
import type { QuotaView } from "../api/schema";
import { countingQuotas } from "./quotas";

function quota(changes: Partial<QuotaView> & { used?: QuotaView["used"] } = {}): QuotaView {
  const usd = (amount: string) => ({ amount, currency: "USD" as const });
  return { scope: "user", name: "ada", limit: usd("10"), mode: "block", buffer_percent: 0, month: "2026-11", used: usd("4"), left: usd("6"), set_by: "boss", set_at: "2026-11-01T00:00:00Z", ...changes };
}

const ADA = { user: "ada", account: null };

test("only the quotas of the user, of the job's account and of the workspace count", () => {
  const all = [quota(), quota({ name: "grace" }), quota({ scope: "account", name: "lab" }), quota({ scope: "tenant", name: "acme" })];
  const names = (account: string | null) => countingQuotas(all, { user: "ada", account }, 1).map(({ quota: { name } }) => name);
  expect(names(null)).toEqual(["ada", "acme"]);
  expect(names("lab")).toEqual(["ada", "lab", "acme"]);
});

test.each([
  [6, 0, null],
  [6.01, 0, "cost"],
  [6.5, 10, null],
  [7.5, 10, "cost"],
  [null, 0, "no_limit"],
  [undefined, 0, null],
] as const)("a job of at most %s USD with a buffer of %s %%", (atMost, buffer_percent, refuses) => {
  expect(countingQuotas([quota({ buffer_percent })], ADA, atMost)[0]?.refuses).toBe(refuses);
  expect(countingQuotas([quota({ buffer_percent, mode: "warn" })], ADA, atMost)[0]?.refuses).toBeNull();
});

test("what is used beyond the limit is told as such", () => {
  const used = { amount: "10.105", currency: "USD" as const };
  expect(countingQuotas([quota({ used })], ADA, undefined)[0]).toMatchObject({ left: 0, over: expect.closeTo(0.105) });
});
