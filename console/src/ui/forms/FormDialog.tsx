/** A form in a dialog, with what went wrong and its two buttons below. It is sent once at a time. */

import { Button, Group, Stack } from "@mantine/core";
import type { FormEvent, ReactNode } from "react";
import { text } from "../../texts";
import { ProblemView } from "../ProblemView";
import { Dialog } from "../Dialog";

interface Props {
  title: string;
  verb: string;
  /** Whether all that is needed is filled in. */
  ready: boolean;
  /** The mutation that sends it. */
  sending: { mutate: () => void; isPending: boolean; isError: boolean; error: Error | null };
  close: () => void;
  children: ReactNode;
}

export function FormDialog({ title, verb, ready, sending, close, children }: Props) {
  function send(event: FormEvent) {
    event.preventDefault();
    if (ready && !sending.isPending) sending.mutate();
  }
  return (
    <Dialog close={close} title={title}>
      <form onSubmit={send}>
        <Stack gap="sm">
          {children}
          {sending.isError ? <ProblemView error={sending.error} /> : null}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              {text("ui.keep")}
            </Button>
            <Button type="submit" disabled={!ready} loading={sending.isPending}>
              {verb}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
