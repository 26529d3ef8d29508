/** Asks before an act that cannot be undone. The button says what happens, and works once. */

import { Button, Group, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { text } from "../../texts";
import { Dialog } from "../Dialog";
import { ProblemView } from "../ProblemView";
import { useSingleFlight } from "./useSingleFlight";

interface Props {
  opened: boolean;
  close: () => void;
  title: string;
  /** What will happen, and to what. */
  children: ReactNode;
  /** A verb, such as "Cancel 312 jobs". */
  verb: string;
  act: () => Promise<unknown>;
  /** In place of "Go back", where that says too little. */
  keep?: string;
  dangerous?: boolean;
  /** Whether there is something to do: not where the act would change nothing. */
  ready?: boolean;
}

export function Confirm({ opened, close, title, children, verb, act, keep, dangerous = true, ready = true }: Props) {
  const mutation = useMutation({ mutationFn: useSingleFlight(act), onSuccess: close });
  if (!opened) return null;
  return (
    <Dialog close={close} title={title}>
      <Stack gap="sm">
        {children}
        {mutation.isError ? <ProblemView error={mutation.error} /> : null}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={close} data-autofocus>
            {keep ?? text("ui.keep")}
          </Button>
          <Button {...(dangerous ? { color: "red.8" } : {})} disabled={!ready} loading={mutation.isPending} onClick={() => mutation.mutate()}>
            {verb}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
