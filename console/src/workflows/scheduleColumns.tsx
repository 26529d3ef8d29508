/** The columns of the list of schedules. */

import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ScheduleView } from "../api/schema";
import { text } from "../texts";
import type { Column } from "../ui/tables/DataTable";
import { RowActions, type RowAction } from "../ui/tables/RowActions";
import { UserText, visible } from "../ui/UserText";
import { Moment } from "../ui/Moment";

export function scheduleColumns(cluster: string, acts: (schedule: ScheduleView) => readonly RowAction[]): Column<ScheduleView>[] {
  const column = (key: "name" | "template" | "cron" | "next" | "last" | "outcome" | "result" | "owner" | "acts") =>
    text(`workflows.schedule.${key}`);
  return [
    { id: "name", head: column("name"), width: "minmax(120px, 2fr)", cell: ({ name }) => <UserText cut>{name}</UserText> },
    { id: "template", head: column("template"), width: "minmax(100px, 1fr)", cell: (each) => <UserText cut>{each.template_id}</UserText> },
    { id: "cron", head: column("cron"), width: "120px", cell: ({ cron }) => <UserText cut>{cron}</UserText> },
    { id: "next", head: column("next"), width: "110px", cell: (each) => <Next schedule={each} /> },
    { id: "last", head: column("last"), width: "110px", cell: (each) => <Moment at={each.last_tick} /> },
    { id: "outcome", head: column("outcome"), width: "minmax(140px, 2fr)", cell: (each) => <UserText cut>{each.last_outcome}</UserText> },
    { id: "result", head: column("result"), width: "90px", cell: (each) => <Result cluster={cluster} schedule={each} /> },
    {
      id: "owner",
      head: column("owner"),
      width: "110px",
      cell: ({ mine }) => text(mine ? "workflows.schedule.own" : "workflows.schedule.another"),
    },
    {
      id: "acts",
      head: column("acts"),
      width: "50px",
      cell: (schedule) => <RowActions of={visible(schedule.name)} acts={acts(schedule)} />,
    },
  ];
}

function Next({ schedule }: { schedule: ScheduleView }) {
  return schedule.paused ? (
    <Text span size="sm">
      {text("workflows.schedule.paused")}
    </Text>
  ) : (
    <Moment at={schedule.next_tick} />
  );
}

/** What the last tick has submitted. */
function Result({ cluster, schedule }: { cluster: string; schedule: ScheduleView }) {
  if (schedule.last_run !== null) {
    return (
      <Link to="/c/$cluster/workflows/runs/$run" params={{ cluster, run: schedule.last_run }}>
        {text("workflows.schedule.run")}
      </Link>
    );
  }
  return schedule.last_job === null ? null : (
    <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: schedule.last_job }}>
      {text("workflows.schedule.job", { number: schedule.last_job })}
    </Link>
  );
}
