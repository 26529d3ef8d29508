/** The workers of an estimate in words. */

import type { EstimatedWorkers, JobEstimate } from "../api/schema";
import { text } from "../texts";

interface Estimated {
  workers: readonly EstimatedWorkers[];
  wait: JobEstimate["wait"];
}

/**
 * Which workers a job would run on. An estimate of a paused cluster has those that would be bought if it were active,
 * for the cost: none of them is bought until then.
 */
export function workersText({ workers, wait }: Estimated): string {
  if (wait !== "paused") return listed(workers) || text("submit.unknown");
  const present = workers.filter(({ kind }) => kind !== "new");
  if (present.length > 0) return listed(present);
  return workers.length === 0 ? text("submit.worker.paused") : text("submit.worker.paused_later", { workers: listed(workers, "later") });
}

function listed(workers: readonly EstimatedWorkers[], as?: "later"): string {
  const words = workers.map(({ kind, shape, count }) =>
    text(`submit.worker.${as ?? kind}`, { shape: shape ?? text("submit.other_shape"), number: count ?? "" }).trim(),
  );
  return [...new Set(words)].join(", ");
}
