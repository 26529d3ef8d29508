/** Another policy, tried by the planner on what waited and ran at a decision, or on what waits and runs now. Nothing is done. */

import { Button, Checkbox, Group, MultiSelect, NumberInput, SegmentedControl, Select, Stack, Text, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import type { ClusterDetail, PolicyChanges } from "../../api/schema";
import { asProblem } from "../../api/problem";
import { text } from "../../texts";
import { ProblemView } from "../../ui/ProblemView";
import { changesOf, presentOf, UNCHANGED, type Tried } from "./policy";
import { simulate } from "../queries";
import { SimulationView } from "./SimulationView";

const MOST_WORKERS = 5_000;
const MOST_USD = 1_000_000;
const DAY_SECONDS = 86_400;

interface Props {
  cluster: string;
  detail: ClusterDetail;
  /** Whether the person may try it; the API decides. */
  admin: boolean;
  /** The shapes of the decision: they come first in the list. */
  shapes: readonly string[];
  /** The number of the decision. */
  generation: number;
}

type Queue = "then" | "now";

export function WhatIf({ cluster, detail, admin, shapes, generation }: Props) {
  const [tried, setTried] = useState<Tried>(UNCHANGED);
  const [queue, setQueue] = useState<Queue>("then");
  const simulation = useMutation({
    mutationFn: (policy: PolicyChanges) => simulate(cluster, policy, queue === "then" ? generation : null),
    // The scaler does not have the decision's queue, and says so: the next try is with the current one.
    onError: (error) => {
      if (asProblem(error).status === 404) setQueue("now");
    },
  });
  const changes = changesOf(tried, detail.shapes);
  const present = presentOf(detail);
  const change = (part: Partial<Tried>) => setTried({ ...tried, ...part });
  const names = [...new Set([...shapes, ...detail.shapes.map(({ name }) => name)])].filter((name) => detail.shapes.some((each) => each.name === name));

  function compare(event: FormEvent) {
    event.preventDefault();
    if (changes !== null && !simulation.isPending) simulation.mutate(changes);
  }

  return (
    <Stack gap="xs" mt="lg" component="section">
      <Title order={3} fz="md">
        {text("fleet.what_if.title")}
      </Title>
      <Text size="sm" c="dimmed">
        {text(admin ? "fleet.what_if.details" : "fleet.what_if.not_allowed")}
      </Text>
      <form onSubmit={compare}>
        <Stack gap="xs">
          <SegmentedControl
            aria-label={text("fleet.what_if.queue")}
            data={[
              { value: "then", label: text("fleet.what_if.queue_then") },
              { value: "now", label: text("fleet.what_if.queue_now") },
            ]}
            value={queue}
            onChange={(value) => {
              setQueue(value === "now" ? "now" : "then");
              simulation.reset();
            }}
          />
          <Group align="end" gap="xs">
            <NumberInput
              label={text("fleet.what_if.workers")}
              description={present.workers}
              placeholder={text("fleet.what_if.unchanged")}
              min={0}
              max={MOST_WORKERS}
              allowDecimal={false}
              value={tried.workers ?? ""}
              onChange={(value) => change({ workers: numberOf(value) })}
              w={150}
            />
            <NumberInput
              label={text("fleet.what_if.usd")}
              description={present.usd}
              placeholder={text("fleet.what_if.unchanged")}
              min={0.000001}
              max={MOST_USD}
              disabled={tried.unlimited}
              value={tried.usd ?? ""}
              onChange={(value) => change({ usd: numberOf(value) })}
              w={170}
            />
            <Checkbox label={text("fleet.what_if.no_limit")} checked={tried.unlimited} onChange={(event) => change({ unlimited: event.currentTarget.checked })} mb={8} />
            <NumberInput
              label={text("fleet.what_if.idle")}
              description={present.idle}
              suffix={` ${text("fleet.what_if.seconds")}`}
              placeholder={text("fleet.what_if.unchanged")}
              min={0}
              max={DAY_SECONDS}
              value={tried.idle ?? ""}
              onChange={(value) => change({ idle: numberOf(value) })}
              w={160}
            />
          </Group>
          <Group align="end" gap="xs">
            <Select
              label={text("fleet.what_if.policy")}
              description={present.name}
              data={[
                { value: "", label: text("fleet.what_if.unchanged") },
                { value: "packing", label: text("fleet.what_if.packing") },
                { value: "family", label: text("fleet.what_if.family") },
              ]}
              value={tried.name ?? ""}
              onChange={(name) => change({ name: name === "packing" || name === "family" ? name : null })}
              w={240}
            />
            <MultiSelect
              label={text("fleet.what_if.without")}
              description={present.without}
              data={names}
              value={[...tried.without]}
              onChange={(without) => change({ without })}
              searchable
              miw={220}
            />
            <Button type="submit" loading={simulation.isPending} disabled={changes === null} title={changes === null ? text("fleet.what_if.same") : undefined}>
              {text("fleet.what_if.compare")}
            </Button>
          </Group>
        </Stack>
      </form>
      {simulation.isError ? <ProblemView error={simulation.error} /> : null}
      <div aria-live="polite">{simulation.data ? <SimulationView simulation={simulation.data} cluster={cluster} /> : null}</div>
    </Stack>
  );
}

function numberOf(value: string | number): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
