/** Where an output is read: as a person who may see its job, or by a link that shows it. */

import { api } from "../../api/client";

export type StreamName = "stdout" | "stderr";

export interface RangeAnswer {
  bytes: Uint8Array;
  /** The answer's `Content-Range`; null for the whole output. */
  range: string | null;
}

export interface OutputSource {
  /** Reads a range of bytes, such as `0-99` or `-100`. Throws ProblemError. */
  read: (range: string, signal: AbortSignal) => Promise<RangeAnswer>;
  /** The stream by which it is followed; null where it is not. */
  live: string | null;
  /** Where a browser gets the whole of it; null where it cannot. */
  download: { address: string; name: string } | null;
}

/** The output of a job, for people who are signed in. */
export function jobOutput(cluster: string, job: string, stream: StreamName): OutputSource {
  const path = `/v1/clusters/${encodeURIComponent(cluster)}/jobs/${encodeURIComponent(job)}/output`;
  const query = stream === "stderr" ? "?stream=stderr" : "";
  return {
    read: async (range, signal) =>
      rangeAnswer(
        await api.GET("/v1/clusters/{cluster_id}/jobs/{job_id}/output", {
          params: {
            path: { cluster_id: cluster, job_id: job },
            query: stream === "stderr" ? { stream } : {},
            header: { Range: `bytes=${range}` },
          },
          parseAs: "arrayBuffer",
          signal,
        }),
      ),
    live: `${path}/stream${query}`,
    download: { address: `${path}${query}`, name: `${job}-${stream}.txt` },
  };
}

export function rangeAnswer({ data, response }: { data?: unknown; response: Response }): RangeAnswer {
  const bytes = new Uint8Array((data as ArrayBuffer | undefined) ?? new ArrayBuffer(0));
  return { bytes, range: response.headers.get("Content-Range") };
}
