/** The workers now, by shape: how many should be there, what they do, and what they cost. */

import { Skeleton, Table, Text } from "@mantine/core";
import type { ClusterDetail, ShapeCount, ShapeWorkers, Workers } from "../api/schema";
import { text } from "../texts";
import { bareAmount, count } from "../ui/format";
import { visible } from "../ui/UserText";
import classes from "./fleet.module.css";

const STATES = ["busy", "idle", "booting", "draining", "down"] as const;

interface Props {
  cluster: ClusterDetail | undefined;
  workers: Workers | undefined;
  counts: readonly ShapeCount[] | undefined;
}

export function ShapesTable({ cluster, workers, counts }: Props) {
  if (workers === undefined || counts === undefined) return <Skeleton height={96} role="status" aria-label={text("ui.loading")} />;
  const live = new Map(workers.shapes.map((shape) => [shape.shape, shape]));
  const wanted = new Map(counts.map(({ shape, desired }) => [shape, desired]));
  const shapes = [...new Set([...live.keys(), ...counts.filter(({ desired }) => desired !== 0).map(({ shape }) => shape)])].toSorted();
  const limits = new Map(cluster?.shapes.map(({ name, most }) => [name, most]));
  if (shapes.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        {text("fleet.shapes.none")}
      </Text>
    );
  }
  return (
    <Table.ScrollContainer type="native" minWidth={620} tabIndex={0}>
      <Table aria-label={text("fleet.shapes.title")} verticalSpacing={4} striped={false}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{text("fleet.shapes.shape")}</Table.Th>
            <Table.Th className={classes.number}>{text("fleet.shapes.desired")}</Table.Th>
            <Table.Th className={classes.number}>{text("fleet.shapes.workers")}</Table.Th>
            {STATES.map((state) => (
              <Table.Th key={state} className={classes.number}>
                {text(`fleet.state.${state}`)}
              </Table.Th>
            ))}
            <Table.Th className={classes.number}>{text("fleet.shapes.most")}</Table.Th>
            <Table.Th className={classes.number}>{text("fleet.shapes.cost")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {shapes.map((shape) => (
            <ShapeRow key={shape} shape={shape} live={live.get(shape)} wanted={wanted.get(shape)} most={limits.get(shape)} known={workers.queue_as_of !== null} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

interface RowProps {
  shape: string;
  live: ShapeWorkers | undefined;
  wanted: number | null | undefined;
  most: number | null | undefined;
  /** Whether Slurm told what the workers do. */
  known: boolean;
}

function ShapeRow({ shape, live, wanted, most, known }: RowProps) {
  const unpriced = live !== undefined && live.workers > 0 && live.unpriced === live.workers;
  return (
    <Table.Tr>
      <Table.Th scope="row" fw={500}>
        {visible(shape)}
      </Table.Th>
      <Table.Td className={classes.number}>{wanted === null ? text("ui.chart.unknown") : count(wanted ?? 0)}</Table.Td>
      <Table.Td className={classes.number}>{count(live?.workers ?? 0)}</Table.Td>
      {STATES.map((state) => (
        <Table.Td key={state} className={classes.number}>
          {known || live === undefined ? count(live?.by_state[state] ?? 0) : text("ui.chart.unknown")}
        </Table.Td>
      ))}
      <Table.Td className={classes.number}>{most === null || most === undefined ? text("fleet.shapes.no_limit") : count(most)}</Table.Td>
      <Table.Td className={classes.number}>{unpriced ? text("ui.chart.unknown") : bareAmount(Number(live?.usd_per_hour ?? 0))}</Table.Td>
    </Table.Tr>
  );
}
