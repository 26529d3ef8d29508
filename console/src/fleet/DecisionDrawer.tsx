/** The decision of a moment: what was decided for each shape, why, for which jobs, and a simulation of another policy, with the queue of then or of now. */

import { Drawer, Skeleton, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ClusterDetail } from "../api/schema";
import { Alternatives } from "../jobs/Alternatives";
import { text } from "../texts";
import { Empty } from "../ui/Empty";
import { UserText, visible } from "../ui/UserText";
import { count, exact } from "../ui/format";
import { ProblemView } from "../ui/ProblemView";
import { lacksAlternatives, type Change, type Decision } from "./decisions";
import classes from "./fleet.module.css";
import { decisionAtQuery } from "./queries";
import { WhatIf } from "./simulation/WhatIf";

interface Props {
  cluster: string;
  detail: ClusterDetail | undefined;
  admin: boolean;
  /** ISO 8601; undefined while none is open. */
  moment: string | undefined;
  close: () => void;
}

export function DecisionDrawer({ cluster, detail, admin, moment, close }: Props) {
  const decision = useQuery({ ...decisionAtQuery(cluster, moment ?? new Date(0).toISOString()), enabled: moment !== undefined });
  const title = decision.data ? text("fleet.decision.title", { number: decision.data.generation }) : text("fleet.decision.title_unknown");
  return (
    <Drawer
      opened={moment !== undefined}
      onClose={close}
      position="right"
      size="xl"
      title={title}
      closeButtonProps={{ "aria-label": text("ui.close") }}
    >
      {decision.isPending ? <Skeleton height={120} role="status" aria-label={text("ui.loading")} /> : null}
      {decision.isError ? <ProblemView error={decision.error} retry={() => void decision.refetch()} /> : null}
      {decision.isSuccess && decision.data === null ? (
        <Empty title={text(admin ? "fleet.decision.none" : "fleet.decisions.hidden")}>
          {text(admin ? "fleet.decision.none_details" : "fleet.decisions.none_member")}
        </Empty>
      ) : null}
      {decision.data ? <DecisionView cluster={cluster} decision={decision.data} moment={moment ?? decision.data.at} /> : null}
      {decision.data && detail !== undefined ? (
        <WhatIf
          key={decision.data.id}
          cluster={cluster}
          detail={detail}
          admin={admin}
          shapes={decision.data.changes.map(({ shape }) => shape)}
          generation={decision.data.generation}
        />
      ) : null}
    </Drawer>
  );
}

interface ViewProps {
  cluster: string;
  decision: Decision;
  /** The moment that was asked for. */
  moment: string;
}

function DecisionView({ cluster, decision, moment }: ViewProps) {
  const earlier = Date.parse(moment) - Date.parse(decision.at) >= 1;
  return (
    <Stack gap="xs">
      {earlier ? (
        <Text size="sm" c="dimmed">
          {text("fleet.decision.asked", { time: exact(new Date(moment)) })}
        </Text>
      ) : null}
      <Text size="sm">{text("fleet.decision.at", { time: exact(new Date(decision.at)) })}</Text>
      <Table.ScrollContainer type="native" minWidth={520} tabIndex={0}>
        <Table aria-label={text("fleet.decision.title", { number: decision.generation })} verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{text("fleet.decision.shape")}</Table.Th>
              <Table.Th className={classes.number}>{text("fleet.decision.workers")}</Table.Th>
              <Table.Th>{text("fleet.decision.why")}</Table.Th>
              <Table.Th>{text("fleet.decision.jobs")}</Table.Th>
              <Table.Th>{text("fleet.decision.victims")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {decision.changes.map((change) => (
              <ChangeRow key={change.shape} cluster={cluster} change={change} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Link to="/c/$cluster/activity" params={{ cluster }} search={around(decision.at)}>
        {text("fleet.decision.earlier")}
      </Link>
      {decision.changes.map((change) => (change.alternatives.length > 0 ? <Compared key={change.shape} cluster={cluster} change={change} /> : null))}
      {lacksAlternatives(decision) ? (
        <Text size="sm" c="dimmed">
          {text("fleet.decision.no_alternatives")}
        </Text>
      ) : null}
    </Stack>
  );
}

/** The shapes that were compared for the first job of a change. */
function Compared({ cluster, change }: { cluster: string; change: Change }) {
  const job = change.job_ids[0];
  return (
    <section>
      <Title order={3} fz="sm">
        {text("fleet.decision.alternatives", { shape: visible(change.shape) })}
      </Title>
      {job === undefined ? null : (
        <Text size="sm" c="dimmed">
          <Link to="/c/$cluster/jobs/$job" params={{ cluster, job }}>
            {text("fleet.decision.alternatives_job", { job: visible(job) })}
          </Link>
        </Text>
      )}
      <Alternatives alternatives={change.alternatives} />
    </section>
  );
}

const MINUTE_MS = 60_000;

/** The events from a minute before to a minute after a moment. */
function around(moment: string) {
  const at = Date.parse(moment);
  return { since: new Date(at - MINUTE_MS).toISOString(), until: new Date(at + MINUTE_MS).toISOString() };
}

/** How many jobs and victims of a change are named. */
const NAMED = 30;

function ChangeRow({ cluster, change }: { cluster: string; change: Change }) {
  const { shape, replicas_before, replicas_after, reason, job_ids, victims } = change;
  return (
    <Table.Tr>
      <Table.Th scope="row" fw={500}>
        <UserText>{shape}</UserText>
      </Table.Th>
      <Table.Td className={classes.number}>
        {count(replicas_before)} → {count(replicas_after)}
      </Table.Td>
      <Table.Td>
        <UserText>{reason}</UserText>
      </Table.Td>
      <Table.Td>
        <span className={classes.jobs}>
          {job_ids.slice(0, NAMED).map((job) => (
            <Link key={job} to="/c/$cluster/jobs/$job" params={{ cluster, job }}>
              {visible(job)}
            </Link>
          ))}
          {job_ids.length > NAMED ? text("fleet.decision.more_jobs", { jobs: count(job_ids.length - NAMED) }) : null}
        </span>
      </Table.Td>
      <Table.Td>
        <UserText>{victims.slice(0, NAMED).join(", ")}</UserText>
        {victims.length > NAMED ? ` ${text("fleet.decision.more_jobs", { jobs: count(victims.length - NAMED) })}` : null}
      </Table.Td>
    </Table.Tr>
  );
}
