/** Schedules: templates that are submitted again and again. */

import { Button, Group, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { ScheduleView } from "../api/schema";
import { refetchQuery } from "../api/queries";
import { useLiveRefetch } from "../live/useLive";
import { text } from "../texts";
import { Confirm } from "../ui/forms/Confirm";
import { DataTable } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { UserText } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { NewSchedule } from "./NewSchedule";
import { scheduleColumns } from "./scheduleColumns";
import { deleteSchedule, schedulesQuery } from "./queries";
import { Tabs } from "./Tabs";

const route = getRouteApi("/c/$cluster/workflows/schedules");

export function SchedulesPage() {
  const { cluster } = route.useParams();
  const { template } = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const [toDelete, setToDelete] = useState<ScheduleView | null>(null);
  const schedules = useQuery(schedulesQuery);
  // A tick that submits something is seen by its job; one that was left out, when the page is read again.
  useLiveRefetch(["job.submitted"], () => refetchQuery(schedules));
  const rows = useMemo(
    () => (schedules.data?.schedules ?? []).filter((schedule) => schedule.cluster_id === cluster),
    [schedules.data, cluster],
  );
  const columns = useMemo(() => scheduleColumns(cluster, setToDelete), [cluster]);
  const choose = (chosen: string | undefined) => void navigate({ search: chosen === undefined ? {} : { template: chosen } });
  return (
    <Page title={text("workflows.schedules")} actions={<Button onClick={() => choose("")}>{text("workflows.schedule.new")}</Button>}>
      <Tabs cluster={cluster} />
      {schedules.isError ? <ProblemView error={schedules.error} retry={() => void schedules.refetch()} /> : null}
      <DataTable
        label={text("workflows.schedules")}
        rows={rows}
        columns={columns}
        rowId={(schedule) => schedule.id}
        empty={
          schedules.isSuccess ? <Empty title={text("workflows.schedule.none")}>{text("workflows.schedule.none_details")}</Empty> : null
        }
      />
      <Group gap="xs" mt="xs">
        {schedules.dataUpdatedAt > 0 ? (
          <Text size="xs" c="dimmed">
            {text("workflows.schedule.as_of")} <Moment at={new Date(schedules.dataUpdatedAt).toISOString()} />
          </Text>
        ) : null}
        <Button variant="default" loading={schedules.isFetching} onClick={() => void schedules.refetch()}>
          {text("workflows.schedule.again")}
        </Button>
      </Group>
      {template === undefined ? null : (
        <NewSchedule cluster={cluster} template={template} choose={choose} close={() => choose(undefined)} />
      )}
      <Confirm
        opened={toDelete !== null}
        close={() => setToDelete(null)}
        title={text("workflows.schedule.delete_title")}
        verb={text("workflows.schedule.delete")}
        act={async () => {
          if (toDelete !== null) await deleteSchedule(toDelete.id);
          await queries.invalidateQueries(schedulesQuery);
        }}
      >
        <Text size="sm">
          <UserText>{text("workflows.schedule.delete_text", { name: toDelete?.name ?? "" })}</UserText>
        </Text>
      </Confirm>
    </Page>
  );
}
