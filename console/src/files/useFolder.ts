/** A folder in components: read page by page, and again when something in it may have changed. */

import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import { refetchQuery } from "../api/queries";
import { useLiveRefetch } from "../live/useLive";
import { entriesQuery, refetchBucket, type Entry } from "./queries";
import type { Root } from "./paths";
import { useUploads } from "./upload/queue";

const EVENTS = ["file.", "job.staged"];
/** The shared folder has no events of its own: jobs write there. */
const FOLDER_EVENTS = ["job."];
const AFTER_UPLOAD_MS = 1_500;

export function useFolder(cluster: string, root: Root, path: string) {
  const pages = useInfiniteQuery(entriesQuery(cluster, root, path));
  useLiveRefetch(root === "bucket" ? EVENTS : FOLDER_EVENTS, () => refetchQuery(pages));
  useAfterUploads(cluster);
  const entries = useMemo<Entry[]>(() => pages.data?.pages.flatMap((page) => page.entries) ?? [], [pages.data]);
  const unreadable = useMemo(() => (pages.data?.pages ?? []).reduce((sum, page) => sum + page.unreadable, 0), [pages.data]);
  return { pages, entries, unreadable, owner: pages.data?.pages[0]?.owner ?? null };
}

/** Uploads go to the bucket and have no events: what is shown is read again after them, not more than now and then. */
function useAfterUploads(cluster: string): void {
  const queries = useQueryClient();
  const { done } = useUploads();
  const seen = useRef(done);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(() => {
    if (done > seen.current) {
      timer.current ??= setTimeout(() => {
        timer.current = null;
        void refetchBucket(queries, cluster);
      }, AFTER_UPLOAD_MS);
    }
    seen.current = done;
  }, [done, queries, cluster]);
  useEffect(() => () => (timer.current === null ? undefined : clearTimeout(timer.current)), []);
}
