/** The form for a schedule: a template, its values, and the times. */

import { Button, Group, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { launchablesQuery } from "../api/launchables";
import { text } from "../texts";
import { visible } from "../ui/Foreign";
import { inputField, isSimple, missing, type Values } from "../ui/parameterValues";
import { ParameterFields } from "../ui/ParameterFields";
import { ProblemView } from "../ui/ProblemView";
import { useOnce } from "../ui/useOnce";
import { useNow } from "../ui/useNow";
import { CronTimes } from "./CronTimes";
import { readCron } from "./cron";
import { createSchedule, schedulesQuery } from "./schedules";

interface Props {
  cluster: string;
  template: string;
  choose: (template: string) => void;
  close: () => void;
}

const TIMES = 3;
const MINUTE_MS = 60_000;

export function NewSchedule({ cluster, template, choose, close }: Props) {
  const queries = useQueryClient();
  const templates = useQuery(launchablesQuery());
  const [name, setName] = useState("");
  const [cron, setCron] = useState("0 6 * * *");
  const [missed, setMissed] = useState<"skip" | "last">("skip");
  const [params, setParams] = useState<Values>({});
  const [inputs, setInputs] = useState<Values>({});
  const minute = Math.floor(useNow() / MINUTE_MS) * MINUTE_MS;
  const times = readCron(cron, new Date(minute), TIMES);
  const options = (templates.data?.launchables ?? []).filter(({ ready, kind }) => ready && kind !== "interactive");
  const chosen = options.find(({ id }) => id === template);
  const fields = chosen?.parameters ?? [];
  const inputFields = (chosen?.inputs ?? []).map(inputField);
  const hidden = fields.filter((field) => !isSimple(field));
  const incomplete =
    chosen === undefined || name.trim() === "" || "problem" in times || missing([...fields, ...inputFields], { ...params, ...inputs }).length > 0;
  const create = useMutation({
    mutationFn: useOnce(() =>
      createSchedule({ name: name.trim(), template_id: template, cluster_id: cluster, cron: cron.trim(), missed, params, inputs }),
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
    <Modal opened onClose={close} title={text("workflows.schedule.new")}>
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
              setParams({});
              setInputs({});
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
          <ParameterFields fields={inputFields} values={inputs} onChange={setInputs} />
          <ParameterFields fields={fields} values={params} onChange={setParams} />
          {hidden.length > 0 ? (
            <Text size="xs" c="dimmed">
              {text("workflows.schedule.not_simple", { names: visible(hidden.map((field) => field.name).join(", ")) })}
            </Text>
          ) : null}
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
    </Modal>
  );
}
