/** What happened in the cluster, the newest first, live. */

import { Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { readNextPage, retryPages } from "../api/nextPage";
import { useArchive } from "../live/lists/useArchive";
import { text } from "../texts";
import { DataTable } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { SavedViews } from "../views/SavedViews";
import { ActivityFilters } from "./ActivityFilters";
import { activityColumns } from "./columns";
import { archived, passes, type EventFilters } from "./events";
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
  const { pages, events, behind } = useArchive(cluster, archived(filters), (event) => passes(event, filters));
  const rows = useMemo(() => events.map(rowOf), [events]);
  const columns = useMemo(() => activityColumns(cluster), [cluster]);
  return (
    <Page title={text("app.page.activity")} actions={<SavedViews page="activity" />}>
      <ActivityFilters search={search} change={(changed) => void navigate({ search: changed, replace: true })} />
      {pages.isError ? <ProblemView error={pages.error} retry={() => retryPages(pages)} /> : null}
      {behind ? (
        <Text size="sm" c="dimmed" mb="xs">
          {text("activity.behind")}
        </Text>
      ) : null}
      <DataTable
        label={text("app.page.activity")}
        rows={rows}
        columns={columns}
        rowId={(row) => row.id}
        onEnd={() => readNextPage(pages)}
        empty={pages.isSuccess && !pages.hasNextPage ? <Empty title={text("activity.none")}>{text("activity.none_details")}</Empty> : null}
      />
    </Page>
  );
}
