/** What a run has cost, read again when one of its jobs has ended: no event tells what a job costs while it runs. */

import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { RunView } from "../api/schema";
import { refetchQuery } from "../api/queries";
import { JOB_ENDS } from "../live/event";
import { useLiveRefetch } from "../live/useLive";
import { arrayOf } from "../jobs/arrayTasks";
import { text } from "../texts";
import { money } from "../ui/format";
import { Moment } from "../ui/Moment";
import { runCostQuery } from "./queries";
import { attemptsOf } from "./runCost";

const CHANGES = [...JOB_ENDS, "run."];

export function RunCostText({ cluster, run }: { cluster: string; run: RunView }) {
  const cost = useQuery(runCostQuery(cluster, run));
  useLiveRefetch(
    CHANGES,
    () => refetchQuery(cost),
    ({ subject, data }) => data["run_id"] === run.run_id || attemptsOf(run).has(arrayOf(subject)),
  );
  if (cost.isError) return <Text size="sm">{text("workflows.run.cost_missing")}</Text>;
  if (!cost.data) return null;
  const { amount, unknown, asOf } = cost.data;
  return (
    <Text size="sm">
      {unknown === 0 ? text("workflows.run.cost", { cost: money(amount) }) : text("workflows.run.cost_part", { cost: money(amount), count: unknown })}
      {asOf === null ? null : (
        <>
          {" "}
          {text("workflows.run.as_of")} <Moment at={asOf} />
        </>
      )}
    </Text>
  );
}
