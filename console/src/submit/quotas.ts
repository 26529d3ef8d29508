/**
 * Which quotas count a job, and which of them may refuse it. The gateway decides at the submit, by a cost that is at most
 * what the estimate says: it counts the cheapest worker that fits.
 */

import type { QuotaView } from "../api/schema";

/** Whose job it is. */
export interface Payer {
  user: string;
  /** Slurm's account that the job names; null for none. */
  account: string | null;
}

export interface CountingQuota {
  quota: QuotaView;
  /** What is left of the limit, in USD: never below 0, as then `over` is more than 0. */
  left: number;
  over: number;
  /** Why a submit may be refused: for its cost, or because its cost has no limit. Null: it is not. */
  refuses: "cost" | "no_limit" | null;
}

/**
 * The quotas that count a job of this payer. An admin's list also has those of others.
 *
 * `atMost` is the most that the job can cost, in USD; null where it has no limit, undefined while it is not known.
 */
export function countingQuotas(quotas: readonly QuotaView[], payer: Payer, atMost: number | null | undefined): CountingQuota[] {
  return quotas.filter((quota) => counts(quota, payer)).map((quota) => {
    const [limit, used] = [Number(quota.limit.amount), Number(quota.used.amount)];
    return { quota, left: Math.max(0, limit - used), over: Math.max(0, used - limit), refuses: refusal(quota, limit, used, atMost) };
  });
}

function counts({ scope, name }: QuotaView, { user, account }: Payer): boolean {
  return scope === "tenant" || (scope === "user" ? name === user : name === account);
}

function refusal(quota: QuotaView, limit: number, used: number, atMost: number | null | undefined): CountingQuota["refuses"] {
  if (quota.mode === "warn" || atMost === undefined) return null;
  if (atMost === null) return "no_limit";
  return used + atMost > limit * (1 + quota.buffer_percent / 100) ? "cost" : null;
}
