/** The form of what can be changed of a job. It sends what differs, once. */

import { Button, Group, SimpleGrid, Stack, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import type { JobWithCost } from "../../api/schema";
import { text } from "../../texts";
import { stateGroup } from "../../ui/jobStates";
import { ProblemView } from "../../ui/ProblemView";
import { editJob } from "../actions";
import { changesOf, editsOf, fieldsOf, isNumber } from "./edits";
import { Dialog } from "../../ui/Dialog";

interface Props {
  cluster: string;
  job: JobWithCost;
  close: () => void;
  changed: () => void;
}

export function EditForm({ cluster, job, close, changed }: Props) {
  const [before] = useState(() => editsOf(job));
  const [after, setAfter] = useState(before);
  const [key, setKey] = useState(() => crypto.randomUUID());
  const changes = changesOf(before, after);
  const edit = useMutation({
    mutationFn: () => editJob({ cluster, job: job.job_id }, key, changes),
    onSuccess: () => {
      changed();
      close();
    },
    // What was refused changed nothing; the next try may be another change.
    onError: () => setKey(crypto.randomUUID()),
  });
  function submit(event: FormEvent): void {
    event.preventDefault();
    if (Object.keys(changes).length > 0 && !edit.isPending) edit.mutate();
  }
  return (
    <Dialog close={close} title={text("job.edit.title", { number: job.job_id })}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
            {fieldsOf(stateGroup(job.state) === "waiting").map((field) => (
              <TextInput
                key={field}
                label={text(`job.edit.${field}`)}
                inputMode={isNumber(field) ? "numeric" : "text"}
                {...(isNumber(field) ? { pattern: "-?[0-9]*" } : {})}
                value={after[field]}
                onChange={(event) => {
                  const { value } = event.currentTarget;
                  setAfter((known) => ({ ...known, [field]: value }));
                }}
              />
            ))}
          </SimpleGrid>
          {edit.isError ? <ProblemView error={edit.error} /> : null}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              {text("ui.keep")}
            </Button>
            <Button type="submit" loading={edit.isPending} disabled={Object.keys(changes).length === 0}>
              {text("job.edit.verb")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
