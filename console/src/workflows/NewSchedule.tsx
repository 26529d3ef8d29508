/** The form for a schedule: a template, its values, and the times. */

import { Button, Group, Select, Stack, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState, type FormEvent } from "react";
import { launchablesQuery, templateQuery } from "../api/launchables";
import type { TemplateView } from "../api/schema";
import { allParts } from "../parameters/family";
import { ParametersForm } from "../parameters/ParametersForm";
import { useParameters } from "../parameters/useParameters";
import type { Part } from "../parameters/values";
import { text } from "../texts";
import { visible } from "../ui/UserText";
import { ProblemView } from "../ui/ProblemView";
import { useSingleFlight } from "../ui/forms/useSingleFlight";
import { useNow } from "../ui/useNow";
import { CronTimes } from "./CronTimes";
import { readCron } from "./cron";
import { createSchedule, schedulesQuery } from "./queries";
import { Dialog } from "../ui/Dialog";

interface Props {
  cluster: string;
  template: string;
  choose: (template: string) => void;
  close: () => void;
}

const NONE: readonly TemplateView[] = [];
const NO_PARTS: readonly Part[] = [];
const TIMES = 3;
const MINUTE_MS = 60_000;

export function NewSchedule({ cluster, template, choose, close }: Props) {
  const queries = useQueryClient();
  const templates = useQuery(launchablesQuery());
  const [name, setName] = useState("");
  const [cron, setCron] = useState("0 6 * * *");
  const [missed, setMissed] = useState<"skip" | "last">("skip");
  const minute = Math.floor(useNow() / MINUTE_MS) * MINUTE_MS;
  const times = readCron(cron, new Date(minute), TIMES);
  const all = templates.data?.launchables ?? NONE;
  const options = all.filter(({ ready, kind }) => ready && kind !== "interactive");
  const chosen = options.find(({ id }) => id === template);
  const detail = useQuery({ ...templateQuery(chosen?.id ?? ""), enabled: chosen !== undefined });
  const parts = useMemo(() => (detail.data === undefined ? null : allParts(detail.data, detail.data.definition, all)), [detail.data, all]);
  const parameters = useParameters(parts ?? NO_PARTS);
  const incomplete = parts === null || name.trim() === "" || "problem" in times || Object.keys(parameters.problems).length > 0;
  const create = useMutation({
    mutationFn: useSingleFlight(() =>
      createSchedule({ name: name.trim(), template_id: template, cluster_id: cluster, cron: cron.trim(), missed, ...parameters.request }),
    ),
    onSuccess: async () => {
      await queries.invalidateQueries(schedulesQuery);
      close();
    },
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    if (!incomplete && !create.isPending && !create.isSuccess) create.mutate();
  }
  return (
    <Dialog close={close} title={text("workflows.schedule.new")}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          {templates.isError ? <ProblemView error={templates.error} retry={() => void templates.refetch()} /> : null}
          <Select
            label={text("workflows.schedule.template")}
            placeholder={text("workflows.schedule.choose")}
            searchable
            required
            data={options.map(({ id, name: called }) => ({ value: id, label: visible(called || id) }))}
            value={chosen?.id ?? null}
            onChange={(id) => {
              parameters.clear();
              if (id !== null) choose(id);
            }}
          />
          <TextInput
            label={text("workflows.schedule.name")}
            required
            maxLength={200}
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
          />
          <TextInput
            label={text("workflows.schedule.cron_label")}
            description={text("workflows.schedule.cron_help")}
            required
            maxLength={200}
            value={cron}
            onChange={({ currentTarget }) => setCron(currentTarget.value)}
            error={"problem" in times ? text(`workflows.schedule.cron_${times.problem}`) : null}
          />
          <CronTimes reading={times} />
          <Select
            label={text("workflows.schedule.missed")}
            data={[
              { value: "skip", label: text("workflows.schedule.missed_skip") },
              { value: "last", label: text("workflows.schedule.missed_last") },
            ]}
            value={missed}
            onChange={(value) => setMissed(value === "last" ? "last" : "skip")}
          />
          {detail.isError ? <ProblemView error={detail.error} retry={() => void detail.refetch()} /> : null}
          {parts === null ? null : (
            <ParametersForm
              parts={parts}
              values={parameters.values}
              problems={parameters.problems}
              strict={false}
              onChange={parameters.change}
            />
          )}
          {create.isError ? <ProblemView error={create.error} /> : null}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              {text("ui.keep")}
            </Button>
            <Button type="submit" disabled={incomplete} loading={create.isPending}>
              {text("workflows.schedule.create")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
