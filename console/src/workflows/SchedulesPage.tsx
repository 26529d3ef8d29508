/** Schedules: templates that are submitted again and again. */

import { Button, Group, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { ScheduleView } from "../api/schema";
import { refetchQuery } from "../api/queries";
import { useLiveList } from "../live/lists/useLiveList";
import { text } from "../texts";
import { announce } from "../ui/announcements";
import { DataTable } from "../ui/tables/DataTable";
import type { RowAction } from "../ui/tables/RowActions";
import { Empty } from "../ui/Empty";
import { Moment } from "../ui/Moment";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { visible } from "../ui/UserText";
import { ScheduleConfirm, type AskedSchedule } from "./ScheduleConfirm";
import { ScheduleForm } from "./ScheduleForm";
import { scheduleColumns } from "./scheduleColumns";
import { changeSchedule, schedulesQuery } from "./queries";
import { Tabs } from "./Tabs";
import { RefreshButton } from "../ui/RefreshButton";

const route = getRouteApi("/c/$cluster/workflows/schedules");

export function SchedulesPage() {
  const { cluster } = route.useParams();
  const { template, edit } = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const [asked, setAsked] = useState<AskedSchedule | null>(null);
  const schedules = useQuery(schedulesQuery);
  // A tick that submits something is seen by its job; one that was left out, when the page is read again.
  useLiveList({ cluster, list: schedules.data, kinds: ["job.submitted", "schedule."], again: () => refetchQuery(schedules) });
  const { mutate: setPaused, error: refused } = useMutation({
    mutationFn: ({ id, paused }: ScheduleView) => changeSchedule(id, { paused: !paused }),
    onSuccess: ({ name, paused }) => announce(text(paused ? "workflows.schedule.was_paused" : "workflows.schedule.was_resumed", { name: visible(name) })),
    onSettled: () => queries.invalidateQueries(schedulesQuery),
  });
  const rows = useMemo(
    () => (schedules.data?.schedules ?? []).filter((schedule) => schedule.cluster_id === cluster),
    [schedules.data, cluster],
  );
  const columns = useMemo(() => {
    // Its jobs run as its owner: nobody else runs it or changes what it runs.
    const own = (schedule: ScheduleView): RowAction[] => [
      { label: text("workflows.schedule.run_now"), run: () => setAsked({ act: "run", schedule }) },
      { label: text("workflows.schedule.edit"), run: () => void navigate({ search: { edit: schedule.id } }) },
    ];
    return scheduleColumns(cluster, (schedule) => [
      { label: text(schedule.paused ? "workflows.schedule.resume" : "workflows.schedule.pause"), run: () => setPaused(schedule) },
      ...(schedule.mine ? own(schedule) : []),
      { label: text("workflows.schedule.delete"), run: () => setAsked({ act: "delete", schedule }), dangerous: true },
    ]);
  }, [cluster, navigate, setPaused]);
  const choose = (chosen: string | undefined) => void navigate({ search: chosen === undefined ? {} : { template: chosen } });
  const edited = rows.find(({ id, mine }) => id === edit && mine);
  return (
    <Page title={text("workflows.schedules")} actions={<Button onClick={() => choose("")}>{text("workflows.schedule.new")}</Button>}>
      <Tabs cluster={cluster} />
      {schedules.isError ? <ProblemView error={schedules.error} retry={() => void schedules.refetch()} /> : null}
      {refused === null ? null : <ProblemView error={refused} />}
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
        <RefreshButton busy={schedules.isFetching} refresh={() => void schedules.refetch()}>
          {text("workflows.schedule.again")}
        </RefreshButton>
      </Group>
      {template === undefined ? null : (
        <ScheduleForm cluster={cluster} template={template} choose={choose} close={() => choose(undefined)} />
      )}
      {edited === undefined ? null : (
        <ScheduleForm
          key={edited.id}
          cluster={cluster}
          template={edited.template_id}
          schedule={edited}
          choose={choose}
          close={() => choose(undefined)}
        />
      )}
      <ScheduleConfirm asked={asked} close={() => setAsked(null)} />
    </Page>
  );
}
