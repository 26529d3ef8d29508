/** Keeps what the page knows of the person right: a session that ends, a role that changes, somebody else who signs in. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { profileQuery } from "../api/queries";
import { useFeed, useLiveEvents, useLiveStatus } from "../live/useLive";
import { isOfPage, leave, rememberUser } from "./session";

export function useRights(): void {
  const queries = useQueryClient();
  const feed = useFeed();
  const { state } = useLiveStatus();
  const { data: profile } = useQuery(profileQuery);
  const connected = useRef(false);

  /** An answer that nobody is signed in leads to the sign-in, wherever it comes from. */
  const refetchProfile = useCallback(() => {
    queries.fetchQuery({ ...profileQuery, staleTime: 0 }).catch(() => undefined);
  }, [queries]);

  // The gateway ends the stream of whoever loses a right, before it answers anything else.
  useEffect(() => {
    if (state === "refused" || (state === "live" && connected.current)) refetchProfile();
    if (state === "live") connected.current = true;
  }, [state, refetchProfile]);

  useLiveEvents(["member.changed", "member.deleted"], (events) => {
    if (events.some(({ data }) => data["subject"] === profile?.name)) refetchProfile();
  });

  // A session can be replaced by a page that is not of the console, such as that of the API's reference.
  useEffect(() => {
    const shown = () => {
      if (!document.hidden) refetchProfile();
    };
    document.addEventListener("visibilitychange", shown);
    return () => document.removeEventListener("visibilitychange", shown);
  }, [refetchProfile]);

  const id = profile?.id;
  useEffect(() => {
    if (id === undefined) return;
    const changed = rememberUser(id);
    const other = !isOfPage(id);
    if (changed || other) feed.sessionChanged();
    if (other) leave(queries);
  }, [id, feed, queries]);

  // What another role has read is not this one's to see.
  const role = profile?.role;
  const before = useRef(role);
  useEffect(() => {
    if (before.current !== undefined && role !== undefined && before.current !== role) {
      void queries.resetQueries({ predicate: ({ queryKey }) => queryKey[0] !== "profile" });
    }
    if (role !== undefined) before.current = role;
  }, [role, queries]);
}
