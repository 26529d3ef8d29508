/** What is done to files of the bucket. */

import { api, body } from "../api/client";
import type { Entry } from "./queries";
import { join, nameOf, parentOf, type Root } from "./paths";

/** The most files that one act deletes, also of folders. */
export const MOST_DELETED = 10_000;
/** The most files that one act downloads, each as a file of its own. */
export const MOST_DOWNLOADED = 20;

const AT_ONCE = 1_000;
/** A browser drops a download that it has not begun when the next one comes. */
const BETWEEN_DOWNLOADS_MS = 1_000;

/** The address of a file's content: signed by the gateway in the bucket, the gateway's own in the shared folder. */
export async function contentAddress(cluster: string, root: Root, path: string, signal?: AbortSignal): Promise<string> {
  if (root === "folder") {
    return `/v1/clusters/${encodeURIComponent(cluster)}/folders/content?path=${encodeURIComponent(path)}`;
  }
  const signed = await body(
    api.POST("/v1/clusters/{cluster_id}/storage/presigned-url", {
      params: { path: { cluster_id: cluster } },
      body: { path, method: "GET" },
      ...(signal === undefined ? {} : { signal }),
    }),
  );
  return signed.url;
}

/** Lets the browser save files. Their bytes do not pass this page. */
export async function download(cluster: string, root: Root, paths: readonly string[]): Promise<void> {
  for (const [index, path] of paths.slice(0, MOST_DOWNLOADED).entries()) {
    if (index > 0) await new Promise((resolve) => setTimeout(resolve, BETWEEN_DOWNLOADS_MS));
    const link = document.createElement("a");
    link.href = await contentAddress(cluster, root, path);
    link.download = nameOf(path);
    link.rel = "noopener noreferrer";
    link.click();
  }
}

export interface FilesToDelete {
  paths: string[];
  /** Whether there are more files than one act deletes. */
  more: boolean;
}

/** The files that go when these entries are deleted: those of folders, too. */
export async function filesIn(cluster: string, entries: readonly Entry[], signal: AbortSignal): Promise<FilesToDelete> {
  const paths = entries.filter(({ kind }) => kind === "file").map(({ path }) => path);
  for (const folder of entries.filter(({ kind }) => kind === "folder")) {
    let cursor: string | null = "";
    while (cursor !== null && paths.length < MOST_DELETED) {
      const query = { path: folder.path, recursive: true, limit: AT_ONCE, ...(cursor ? { cursor } : {}) };
      const page: Awaited<ReturnType<typeof readRecursive>> = await readRecursive(cluster, query, signal);
      paths.push(...page.files.map(({ path }) => path));
      cursor = page.next_cursor;
    }
    if (cursor !== null) return { paths: paths.slice(0, MOST_DELETED), more: true };
  }
  return { paths: paths.slice(0, MOST_DELETED), more: paths.length > MOST_DELETED };
}

function readRecursive(
  cluster: string,
  query: { path: string; recursive: boolean; limit: number; cursor?: string },
  signal: AbortSignal,
) {
  return body(
    api.GET("/v1/clusters/{cluster_id}/files", { params: { path: { cluster_id: cluster }, query }, signal }),
  );
}

/** Deletes files, and returns those that were not, with the bucket's word for the reason. */
export async function remove(cluster: string, paths: readonly string[]): Promise<{ path: string; reason: string }[]> {
  const failed = [];
  for (let begin = 0; begin < paths.length; begin += AT_ONCE) {
    const answer = await body(
      api.POST("/v1/clusters/{cluster_id}/files/delete", {
        params: { path: { cluster_id: cluster } },
        body: { paths: paths.slice(begin, begin + AT_ONCE) },
      }),
    );
    failed.push(...answer.failed);
  }
  return failed;
}

export type Placing = "rename" | "copy";

export interface Move {
  source: string;
  destination: string;
}

/** Where entries go: one to exactly this path, several into this folder. */
export function placed(sources: readonly string[], destination: string): Move[] {
  const [only] = sources;
  if (only !== undefined && sources.length === 1) {
    const into = destination.endsWith("/");
    return [{ source: only, destination: into ? `${destination}${nameOf(only)}` : destination }];
  }
  return sources.map((source) => ({ source, destination: join(destination.replace(/\/$/, ""), nameOf(source)) }));
}

/** Where a dialog begins: at the file's own path, or at the folder of several. */
export function proposed(sources: readonly string[]): string {
  return sources.length === 1 ? (sources[0] ?? "") : `${parentOf(sources[0] ?? "")}/`;
}

/** Renames or copies one file. The key makes it safe to send again. */
export async function place(
  cluster: string,
  how: Placing,
  move: Move,
  options: { overwrite: boolean; key: string },
): Promise<void> {
  const request = {
    params: { path: { cluster_id: cluster }, header: { "Idempotency-Key": options.key } },
    body: { ...move, overwrite: options.overwrite },
  };
  await body(
    how === "rename"
      ? api.POST("/v1/clusters/{cluster_id}/files/rename", request)
      : api.POST("/v1/clusters/{cluster_id}/files/copy", request),
  );
}
