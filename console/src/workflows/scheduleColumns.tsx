/** The columns of the list of schedules. */

import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ScheduleView } from "../api/schema";
import { text } from "../texts";
import type { Column } from "../ui/tables/DataTable";
import { UserText, visible } from "../ui/UserText";
import { Moment } from "../ui/Moment";

export function scheduleColumns(cluster: string, remove: (schedule: ScheduleView) => void): Column<ScheduleView>[] {
  const column = (key: "name" | "template" | "cron" | "next" | "last" | "outcome" | "result" | "owner" | "acts") =>
    text(`workflows.schedule.${key}`);
  return [
    { id: "name", head: column("name"), width: "minmax(120px, 2fr)", cell: ({ name }) => <UserText cut>{name}</UserText> },
    { id: "template", head: column("template"), width: "minmax(100px, 1fr)", cell: (each) => <UserText cut>{each.template_id}</UserText> },
    { id: "cron", head: column("cron"), width: "120px", cell: ({ cron }) => <UserText cut>{cron}</UserText> },
    { id: "next", head: column("next"), width: "110px", cell: (each) => <Moment at={each.next_tick} /> },
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
      width: "80px",
      cell: (schedule) => (
        <Button
          size="compact-xs"
          variant="default"
          aria-label={text("workflows.schedule.delete_of", { name: visible(schedule.name) })}
          onClick={() => remove(schedule)}
        >
          {text("workflows.schedule.delete")}
        </Button>
      ),
    },
  ];
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
