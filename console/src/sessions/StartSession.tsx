/** The form for a session: a template of the kind interactive, and its values. */

import { Button, Group, Select, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useRef, type FormEvent } from "react";
import { launchablesQuery } from "../api/launchables";
import { ParametersForm } from "../parameters/ParametersForm";
import { useParameters } from "../parameters/useParameters";
import { partsOf } from "../parameters/values";
import { outlookOf } from "../submit/outlook";
import { Facts } from "../submit/SubmitBar";
import { useRendered } from "../submit/template/useRendered";
import { text } from "../texts";
import { Empty } from "../ui/Empty";
import { UserText, visible } from "../ui/UserText";
import { ProblemView } from "../ui/ProblemView";
import { useSingleFlight } from "../ui/forms/useSingleFlight";
import { sessionsQuery, startSession } from "./queries";
import { Dialog } from "../ui/Dialog";

interface Props {
  cluster: string;
  template: string;
  choose: (template: string) => void;
  close: () => void;
}

export function StartSession({ cluster, template, choose, close }: Props) {
  const queries = useQueryClient();
  const templates = useQuery(launchablesQuery("interactive"));
  const key = useRef(crypto.randomUUID());
  const options = templates.data?.launchables ?? [];
  const chosen = options.find(({ id }) => id === template) ?? (options.length === 1 ? options[0] : undefined);
  const parts = useMemo(() => (chosen === undefined ? [] : partsOf(chosen)), [chosen]);
  const parameters = useParameters(parts);
  const incomplete = chosen === undefined || Object.keys(parameters.problems).length > 0;
  const { estimated } = useRendered({ cluster, id: chosen?.id ?? "", version: null, request: incomplete ? null : parameters.request, estimate: true });
  const start = useMutation({
    mutationFn: useSingleFlight(() => startSession(cluster, { template_id: chosen?.id ?? "", ...parameters.request }, key.current)),
    onSuccess: async () => {
      key.current = crypto.randomUUID();
      await queries.invalidateQueries(sessionsQuery(cluster));
      close();
    },
  });
  /** Other values are another request: an answer that was given to the ones before is none to these. */
  function edited() {
    if (!start.isError) return;
    key.current = crypto.randomUUID();
    start.reset();
  }
  function submit(event: FormEvent) {
    event.preventDefault();
    if (!incomplete && !start.isPending) start.mutate();
  }
  return (
    <Dialog close={close} title={text("sessions.start")}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          {templates.isError ? <ProblemView error={templates.error} retry={() => void templates.refetch()} /> : null}
          {templates.isSuccess && options.length === 0 ? (
            <Empty title={text("sessions.form.none")}>{text("sessions.form.none_details")}</Empty>
          ) : null}
          <Select
            label={text("sessions.form.template")}
            placeholder={text("sessions.form.choose")}
            required
            data={options.map(({ id, name }) => ({ value: id, label: visible(name || id) }))}
            value={chosen?.id ?? null}
            onChange={(id) => {
              parameters.clear();
              edited();
              if (id !== null) choose(id);
            }}
          />
          {chosen === undefined ? null : (
            <>
              <Text size="sm">
                <UserText>{chosen.description}</UserText>
              </Text>
              {chosen.tools.length > 0 ? (
                <Text size="sm" c="dimmed">
                  <UserText>{text("sessions.form.tools", { tools: chosen.tools.join(", ") })}</UserText>
                </Text>
              ) : null}
              <ParametersForm
                parts={parts}
                values={parameters.values}
                problems={parameters.problems}
                strict={false}
                onChange={(name, value) => {
                  parameters.change(name, value);
                  edited();
                }}
              />
            </>
          )}
          {chosen === undefined ? null : <Facts outlook={outlookOf(estimated?.estimate ?? null)} old={!(estimated?.current ?? false)} />}
          {estimated?.error ? <ProblemView error={estimated.error} title={text("submit.refused")} /> : null}
          {start.isError ? <ProblemView error={start.error} /> : null}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              {text("ui.keep")}
            </Button>
            <Button type="submit" disabled={incomplete} loading={start.isPending}>
              {text("sessions.form.start")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
