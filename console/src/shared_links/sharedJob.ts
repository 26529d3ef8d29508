/** What a link shows, read with its token alone: without the session of whoever opens it. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import { ProblemError } from "../api/problem";
import type { SharedJob, SharedScript } from "../api/schema";
import { rangeAnswer, type OutputSource, type StreamName } from "../jobs/output/source";

const TOKEN = /^clk_([0-9a-f]{16})_[A-Za-z0-9_-]{43}$/;

/** The token behind the `#` of the address; null where there is none. */
export function tokenOf(hash: string): string | null {
  return TOKEN.test(hash) ? hash : null;
}

/** How each request is sent: the token in a header, and nothing that says who or where the reader is. */
function by(token: string) {
  return {
    headers: { Authorization: `Bearer ${token}` },
    credentials: "omit",
    cache: "no-store",
    referrerPolicy: "no-referrer",
  } as const;
}

/** The job; null for a link that does not work. */
export function sharedJobQuery(token: string) {
  return queryOptions({
    // Without the secret: keys of the cache may be logged.
    queryKey: ["shared job", TOKEN.exec(token)?.[1] ?? ""],
    queryFn: async ({ signal }): Promise<SharedJob | null> => {
      try {
        return await body(api.GET("/v1/shared-job", { ...by(token), signal }));
      } catch (error) {
        // All that is wrong with a link has one answer. 401 here is not the end of a session.
        if (error instanceof ProblemError && [401, 403, 404].includes(error.status)) return null;
        throw error;
      }
    },
    staleTime: 0,
    gcTime: 0,
  });
}

/** The script of the job, of a link that shows it. It does not change, and goes with the page. */
export function sharedScriptQuery(token: string) {
  return queryOptions({
    queryKey: ["shared job", TOKEN.exec(token)?.[1] ?? "", "script"],
    queryFn: ({ signal }): Promise<SharedScript> => body(api.GET("/v1/shared-job/script", { ...by(token), signal })),
    staleTime: Infinity,
    gcTime: 0,
  });
}

/** The output that a link shows. It is not followed, and a browser could not download it without the header. */
export function sharedOutput(token: string, stream: StreamName): OutputSource {
  return {
    read: async (range, signal) =>
      rangeAnswer(
        await api.GET("/v1/shared-job/output", {
          ...by(token),
          params: { query: stream === "stderr" ? { stream } : {}, header: { Range: `bytes=${range}` } },
          parseAs: "arrayBuffer",
          signal,
        }),
      ),
    live: null,
    download: null,
  };
}
