/** What a job asks for, in numbers. */

import type { Job } from "../api/schema";

export type Asked = Pick<Job, "memory_per_node_mib" | "memory_per_cpu_mib" | "node_count" | "cpus">;

/** The memory that a job asks for in MiB, on all its nodes; null where it names none. */
export function memoryOf(job: Asked): number | null {
  if (job.memory_per_node_mib) return job.memory_per_node_mib * Math.max(1, job.node_count ?? 1);
  if (job.memory_per_cpu_mib && job.cpus) return job.memory_per_cpu_mib * job.cpus;
  return null;
}

/** How long a job has run or ran, in seconds; null before it has started. */
export function elapsedOf(job: Job, now: number): number | null {
  if (!job.started_at) return null;
  return Math.max(0, ((job.ended_at ? Date.parse(job.ended_at) : now) - Date.parse(job.started_at)) / 1000);
}
