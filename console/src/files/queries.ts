/** Reads of folders, page by page: of the bucket and of the shared folder, as the same entries. */

import { infiniteQueryOptions, queryOptions, type QueryClient } from "@tanstack/react-query";
import { api, body } from "../api/client";
import { join, nameOf, type Root } from "./paths";

export interface Entry {
  name: string;
  path: string;
  /** `other`: a link, a device or a pipe, which cannot be opened here. */
  kind: "folder" | "file" | "other";
  /** In bytes; null for folders of the bucket. */
  size: number | null;
  modifiedAt: string | null;
}

export interface EntryPage {
  entries: Entry[];
  /** Entries whose names no path can have. They are not among the others. */
  unreadable: number;
  /** Whose files they are; null where they are everybody's. */
  owner: string | null;
  next: string | null;
}

/** The most pages of a folder that are kept, of a thousand entries each. */
export const MOST_PAGES = 20;

const LIMIT = 1_000;

export function entriesQuery(cluster: string, root: Root, path: string) {
  return infiniteQueryOptions({
    queryKey: ["files", cluster, root, path],
    queryFn: ({ pageParam, signal }) => {
      const read = root === "bucket" ? bucketPage : folderPage;
      return read(cluster, path, pageParam, signal);
    },
    initialPageParam: "",
    getNextPageParam: (last, pages) => (pages.length < MOST_PAGES ? last.next : null),
  });
}

async function bucketPage(cluster: string, path: string, cursor: string, signal: AbortSignal): Promise<EntryPage> {
  const page = await body(
    api.GET("/v1/clusters/{cluster_id}/files", {
      params: { path: { cluster_id: cluster }, query: { path, limit: LIMIT, ...(cursor ? { cursor } : {}) } },
      signal,
    }),
  );
  return {
    entries: [
      ...page.folders.map((each) => ({ name: nameOf(each), path: each, kind: "folder" as const, size: null, modifiedAt: null })),
      ...page.files.map((each) => ({
        name: nameOf(each.path),
        path: each.path,
        kind: "file" as const,
        size: each.size,
        modifiedAt: each.modified_at,
      })),
    ],
    unreadable: page.unreadable,
    owner: page.owner?.name ?? null,
    next: page.next_cursor,
  };
}

async function folderPage(cluster: string, path: string, cursor: string, signal: AbortSignal): Promise<EntryPage> {
  const page = await body(
    api.GET("/v1/clusters/{cluster_id}/folders", {
      params: { path: { cluster_id: cluster }, query: { path, limit: LIMIT, ...(cursor ? { cursor } : {}) } },
      signal,
    }),
  );
  return {
    entries: page.entries.map((each) => ({
      name: each.name,
      path: join(path, each.name),
      kind: each.kind,
      size: each.kind === "file" ? each.size : null,
      modifiedAt: each.modified_at,
    })),
    unreadable: page.unreadable,
    owner: null,
    next: page.next_cursor,
  };
}

/** Uploads to a folder of the bucket that were begun and not completed. */
export function unfinishedQuery(cluster: string, path: string) {
  return queryOptions({
    queryKey: ["uploads", cluster, path],
    queryFn: ({ signal }) =>
      body(
        api.GET("/v1/clusters/{cluster_id}/files/uploads", {
          params: { path: { cluster_id: cluster }, query: { path } },
          signal,
        }),
      ),
    enabled: path !== "",
  });
}

/** Reads again what is shown of the bucket. */
export async function refetchBucket(queries: QueryClient, cluster: string): Promise<void> {
  await Promise.all([
    queries.invalidateQueries({ queryKey: ["files", cluster, "bucket"] }),
    queries.invalidateQueries({ queryKey: ["uploads", cluster] }),
  ]);
}
