/** The form of a schedule, a new one or one that is changed: a template, its values, and the times. */

import { Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { launchablesQuery, templateQuery } from "../api/launchables";
import type { ScheduleView, TemplateView } from "../api/schema";
import { allParts } from "../parameters/family";
import { ParametersForm } from "../parameters/ParametersForm";
import { useParameters } from "../parameters/useParameters";
import type { Part, Values } from "../parameters/values";
import { text } from "../texts";
import { announce } from "../ui/announcements";
import { FormDialog } from "../ui/forms/FormDialog";
import { ProblemView } from "../ui/ProblemView";
import { useSingleFlight } from "../ui/forms/useSingleFlight";
import { useMinute } from "../ui/useNow";
import { visible } from "../ui/UserText";
import { CronTimes } from "./CronTimes";
import { readCron } from "./cron";
import { changeSchedule, createSchedule, schedulesQuery } from "./queries";
import { formValues, withOthers } from "./storedValues";

interface Props {
  cluster: string;
  template: string;
  /** The one that is changed; its template stays. */
  schedule?: ScheduleView;
  choose: (template: string) => void;
  close: () => void;
}

const NONE: readonly TemplateView[] = [];
const NO_PARTS: readonly Part[] = [];
const NO_VALUES: Values = {};
const TIMES = 3;

export function ScheduleForm({ cluster, template, schedule, choose, close }: Props) {
  const queries = useQueryClient();
  const templates = useQuery(launchablesQuery());
  const [name, setName] = useState(schedule?.name ?? "");
  const [cron, setCron] = useState(schedule?.cron ?? "0 6 * * *");
  const [missed, setMissed] = useState<"skip" | "last">(schedule?.missed ?? "skip");
  const minute = useMinute();
  const times = readCron(cron, new Date(minute), TIMES);
  const all = templates.data?.launchables ?? NONE;
  const options = all.filter(({ ready, kind }) => ready && kind !== "interactive");
  const chosen = options.find(({ id }) => id === template);
  const detail = useQuery({ ...templateQuery(chosen?.id ?? ""), enabled: chosen !== undefined });
  const parts = useMemo(() => (detail.data === undefined ? null : allParts(detail.data, detail.data.definition, all)), [detail.data, all]);
  const before = useMemo(() => (schedule === undefined || parts === null ? NO_VALUES : formValues(parts, schedule)), [schedule, parts]);
  const parameters = useParameters(parts ?? NO_PARTS, before);
  // The times of a schedule can be changed also while its template cannot be read.
  const valued = parts !== null || schedule !== undefined;
  const incomplete = !valued || name.trim() === "" || "problem" in times || Object.keys(parameters.problems).length > 0;
  const send = () => {
    const wanted = { name: name.trim(), cron: cron.trim(), missed };
    if (schedule === undefined) return createSchedule({ ...wanted, template_id: template, cluster_id: cluster, ...parameters.request });
    return changeSchedule(schedule.id, parts === null ? wanted : { ...wanted, ...withOthers(parts, schedule, parameters.request) });
  };
  const sending = useMutation({
    mutationFn: useSingleFlight(send),
    onSuccess: async () => {
      announce(text(schedule === undefined ? "workflows.schedule.was_created" : "workflows.schedule.was_saved", { name: visible(name.trim()) }));
      await queries.invalidateQueries(schedulesQuery);
      close();
    },
  });
  const verb = text(schedule === undefined ? "workflows.schedule.create" : "workflows.schedule.save");
  return (
    <FormDialog
      title={text(schedule === undefined ? "workflows.schedule.new" : "workflows.schedule.edit_title")}
      verb={verb}
      ready={!incomplete && !sending.isSuccess}
      sending={sending}
      close={close}
    >
      {templates.isError ? <ProblemView error={templates.error} retry={() => void templates.refetch()} /> : null}
      {schedule === undefined ? (
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
      ) : (
        <TextInput label={text("workflows.schedule.template")} value={visible(chosen?.name || template)} readOnly />
      )}
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
    </FormDialog>
  );
}
