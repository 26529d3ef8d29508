/** The columns of the list of sessions. */

import { Button, Group } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { SessionDetail } from "../api/schema";
import { text } from "../texts";
import type { Column } from "../ui/tables/DataTable";
import { UserText, visible } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import { openAddress } from "./queries";
import { SessionState } from "./SessionState";
import { TimeLeft } from "./TimeLeft";

export function sessionColumns(cluster: string, stop: (session: SessionDetail) => void): Column<SessionDetail>[] {
  return [
    {
      id: "state",
      head: text("sessions.column.state"),
      width: "100px",
      cell: (session) => <SessionState cluster={cluster} session={session} />,
    },
    {
      id: "acts",
      head: text("sessions.column.acts"),
      width: "130px",
      cell: (session) => <Acts cluster={cluster} session={session} stop={stop} />,
    },
    { id: "name", head: text("sessions.column.name"), width: "minmax(120px, 2fr)", cell: ({ name }) => <UserText cut>{name}</UserText> },
    {
      id: "job",
      head: text("sessions.column.job"),
      width: "80px",
      numeric: true,
      cell: ({ job_id }) => (
        <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: job_id }}>
          {job_id}
        </Link>
      ),
    },
    {
      id: "left",
      head: text("sessions.column.left"),
      width: "110px",
      numeric: true,
      cell: ({ job_id }) => <TimeLeft cluster={cluster} jobId={job_id} />,
    },
    { id: "detail", head: text("sessions.column.detail"), width: "minmax(200px, 6fr)", cell: ({ detail }) => <span title={visible(detail)}><UserText cut>{detail}</UserText></span> },
    {
      id: "idle",
      head: text("sessions.column.idle"),
      width: "130px",
      numeric: true,
      cell: ({ idle_cull_min: minutes }) => (minutes ? text("sessions.idle", { minutes }) : null),
    },
    { id: "started", head: text("sessions.column.started"), width: "110px", cell: (session) => <Moment at={session.created_at} /> },
  ];
}

function Acts({ cluster, session, stop }: { cluster: string; session: SessionDetail; stop: (session: SessionDetail) => void }) {
  const name = visible(session.name);
  if (session.state === "ended") {
    return (
      <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: session.job_id }} aria-label={text("sessions.output_of", { name })}>
        {text("sessions.output")}
      </Link>
    );
  }
  return (
    <Group gap={6} wrap="nowrap">
      <Button
        component="a"
        size="compact-xs"
        variant={session.state === "ready" ? "filled" : "default"}
        href={openAddress(cluster, session.job_id)}
        target="_blank"
        rel="noopener"
        aria-label={text("sessions.open_of", { name })}
        title={session.state === "ready" ? undefined : text("sessions.open_soon")}
      >
        {text("sessions.open")}
      </Button>
      <Button size="compact-xs" variant="default" aria-label={text("sessions.stop_of", { name })} onClick={() => stop(session)}>
        {text("sessions.stop")}
      </Button>
    </Group>
  );
}
