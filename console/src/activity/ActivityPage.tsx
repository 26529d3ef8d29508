/** What happened in the cluster, the newest first, live. */

import { Text } from "@mantine/core";
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo } from "react";
import { useFeed, useLiveEvents } from "../live/useLive";
import { text } from "../texts";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/Empty";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { SavedViews } from "../views/SavedViews";
import { ActivityFilters } from "./ActivityFilters";
import { activityColumns } from "./columns";
import { eventsQuery, withLive, type EventFilters } from "./events";
import { rowOf } from "./rows";

const route = getRouteApi("/c/$cluster/activity");

export function ActivityPage() {
  const { cluster } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const filters: EventFilters = useMemo(
    () => ({
      groups: search.kinds ?? [],
      subject: search.subject ?? null,
      since: search.since ?? null,
      until: search.until ?? null,
    }),
    [search],
  );
  const events = useEvents(cluster, filters);
  const rows = useMemo(() => events.data?.pages.flatMap((page) => page.events).map(rowOf) ?? [], [events.data]);
  const columns = useMemo(() => activityColumns(cluster), [cluster]);
  return (
    <Page title={text("app.page.activity")} actions={<SavedViews page="activity" />}>
      <ActivityFilters search={search} change={(changed) => void navigate({ search: changed, replace: true })} />
      {events.isError ? <ProblemView error={events.error} retry={() => void events.refetch()} /> : null}
      {events.data?.pages[0]?.position === null ? (
        <Text size="sm" c="dimmed" mb="xs">
          {text("activity.behind")}
        </Text>
      ) : null}
      <DataTable
        label={text("app.page.activity")}
        rows={rows}
        columns={columns}
        rowId={(row) => row.id}
        onEnd={() => {
          if (events.hasNextPage && !events.isFetchingNextPage) void events.fetchNextPage();
        }}
        empty={events.isSuccess ? <Empty title={text("activity.none")}>{text("activity.none_details")}</Empty> : null}
      />
    </Page>
  );
}

/** The pages that were read, with what the stream tells since. */
function useEvents(cluster: string, filters: EventFilters) {
  const feed = useFeed();
  const queries = useQueryClient();
  const options = eventsQuery(cluster, filters);
  const events = useInfiniteQuery(options);
  const read = events.data?.pages[0];
  const position = read?.position ?? null;
  const { queryKey } = options;
  const hash = JSON.stringify(queryKey);
  useEffect(() => {
    if (position === null) return;
    const missed = feed.follow(cluster, position);
    queries.setQueryData(queryKey, (data) => (data === undefined ? data : withLive(data, missed, filters)));
    // The key is new in each render, and its hash is not.
  }, [feed, queries, cluster, position, hash]);
  useLiveEvents([""], (told) => {
    queries.setQueryData(queryKey, (data) => (data === undefined ? data : withLive(data, told, filters)));
  });
  const { refetch } = events;
  useEffect(() => feed.onReset(() => void refetch()), [feed, refetch]);
  return events;
}
