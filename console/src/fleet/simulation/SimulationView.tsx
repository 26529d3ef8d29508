/** Two decisions side by side: under the present policy, and under the changed one. */

import { List, Stack, Table, Text, Title } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { DecidedShape, PolicySimulation } from "../../api/schema";
import { text } from "../../texts";
import { UserText, visible } from "../../ui/UserText";
import { bareAmount, count, short } from "../../ui/format";
import classes from "../fleet.module.css";

/** How many groups of waiting jobs are told. */
const MOST_WAITS = 10;

interface Props {
  cluster: string;
  simulation: PolicySimulation;
}

export function SimulationView({ cluster, simulation }: Props) {
  const { present, changed, paused, shadow, as_of, generation } = simulation;
  const time = short(new Date(as_of));
  const shapes = [...new Set([...present.shapes, ...changed.shapes].map(({ shape }) => shape))].toSorted();
  const now = new Map(present.shapes.map((each) => [each.shape, each]));
  const then = new Map(changed.shapes.map((each) => [each.shape, each]));
  return (
    <Stack gap="xs">
      {paused ? <Text size="sm">{text("fleet.what_if.paused")}</Text> : null}
      {shadow ? <Text size="sm">{text("fleet.what_if.shadow")}</Text> : null}
      <Table.ScrollContainer type="native" minWidth={480} tabIndex={0}>
        <Table aria-label={text("fleet.what_if.title")} verticalSpacing={4}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{text("fleet.what_if.shape")}</Table.Th>
              <Table.Th className={classes.number}>{text(generation === null ? "fleet.what_if.present" : "fleet.what_if.present_then")}</Table.Th>
              <Table.Th className={classes.number}>{text("fleet.what_if.cost")}</Table.Th>
              <Table.Th className={classes.number}>{text("fleet.what_if.changed")}</Table.Th>
              <Table.Th className={classes.number}>{text("fleet.what_if.cost")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shapes.map((shape) => (
              <Row key={shape} head={<UserText>{shape}</UserText>} cells={[...cellsOf(now.get(shape)), ...cellsOf(then.get(shape))]} />
            ))}
            <Row head={text("fleet.what_if.total")} cells={["", bareAmount(Number(present.usd_per_hour)), "", bareAmount(Number(changed.usd_per_hour))]} />
            <Row head={text("fleet.what_if.placed")} cells={[count(present.placed), "", count(changed.placed), ""]} />
            <Row head={text("fleet.what_if.waiting")} cells={[count(present.waiting), "", count(changed.waiting), ""]} />
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {changed.waits.length > 0 ? (
        <>
          <Title order={4} fz="sm">
            {text("fleet.what_if.waits")}
          </Title>
          <List size="sm">
            {changed.waits.slice(0, MOST_WAITS).map((wait) => (
              <List.Item key={`${wait.reason} ${wait.job_ids[0]}`}>
                {text("fleet.what_if.wait", { jobs: count(wait.count), reason: visible(wait.reason) })}{" "}
                {wait.job_ids[0] === undefined ? null : (
                  <Link to="/c/$cluster/jobs/$job" params={{ cluster, job: wait.job_ids[0] }}>
                    {visible(wait.job_ids[0])}
                  </Link>
                )}
              </List.Item>
            ))}
          </List>
        </>
      ) : null}
      <Text size="xs" c="dimmed">
        {generation === null ? text("fleet.what_if.as_of", { time }) : text("fleet.what_if.then_as_of", { time, number: generation })}
      </Text>
    </Stack>
  );
}

/** How many workers of a shape, and what they cost in an hour. */
function cellsOf(shape: DecidedShape | undefined): [string, string] {
  if (shape === undefined) return ["0", ""];
  const workers = shape.new > 0 ? text("fleet.what_if.workers_new", { workers: count(shape.workers), new: count(shape.new) }) : count(shape.workers);
  return [workers, shape.usd_per_hour === null ? text("ui.chart.unknown") : bareAmount(Number(shape.usd_per_hour))];
}

function Row({ head, cells }: { head: React.ReactNode; cells: readonly string[] }) {
  return (
    <Table.Tr>
      <Table.Th scope="row" fw={500}>
        {head}
      </Table.Th>
      {cells.map((cell, index) => (
        <Table.Td key={index} className={classes.number}>
          {cell}
        </Table.Td>
      ))}
    </Table.Tr>
  );
}
