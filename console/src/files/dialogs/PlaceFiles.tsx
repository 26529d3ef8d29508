/** Renames, moves or copies files. */

import { Button, Checkbox, Group, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { asProblem } from "../../api/problem";
import { text } from "../../texts";
import { UserText, visible } from "../../ui/UserText";
import { ProblemView } from "../../ui/ProblemView";
import { useSingleFlight } from "../../ui/forms/useSingleFlight";
import { place, placed, type Placing } from "../actions";
import { Dialog } from "../../ui/Dialog";

interface Props {
  cluster: string;
  how: Placing;
  sources: readonly string[];
  destination: string;
  close: () => void;
  after: () => Promise<void>;
}

export function PlaceFiles({ cluster, how, sources, destination: proposed, close, after }: Props) {
  const [destination, setDestination] = useState(proposed);
  const [overwrite, setOverwrite] = useState(false);
  const [done, setDone] = useState(0);
  const [failedAt, setFailedAt] = useState<string | null>(null);
  // One key for each file and each thing that is asked: what was done is not done again when a later one has failed.
  const keys = useRef(new Map<string, string>());
  const moves = placed(sources, destination.trim());
  const unchanged = moves.some(({ source, destination: to }) => source === to) || destination.trim() === "";

  async function act() {
    setFailedAt(null);
    for (const [index, move] of moves.entries()) {
      const asked = JSON.stringify([move, overwrite]);
      const key = keys.current.get(asked) ?? crypto.randomUUID();
      keys.current.set(asked, key);
      setDone(index);
      try {
        await place(cluster, how, move, { overwrite, key });
      } catch (error) {
        setFailedAt(move.source);
        // A refusal is an answer: the next attempt is a new question.
        keys.current.delete(asked);
        throw error;
      }
    }
  }
  const field = useRef<HTMLInputElement>(null);
  const mutation = useMutation({ mutationFn: useSingleFlight(act), onSuccess: () => void after().then(close) });
  const refused = mutation.isError ? refusalOf(mutation.error) : null;
  // The field says what is wrong with it when it has the focus, which the button lost while it worked.
  useEffect(() => {
    if (refused !== null) field.current?.focus();
  }, [refused, mutation.submittedAt]);
  function submit(event: FormEvent) {
    event.preventDefault();
    if (!unchanged && !mutation.isPending) mutation.mutate();
  }
  return (
    <Dialog close={close} title={text(`files.place.${how}_title`)}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          <TextInput
            label={text(sources.length === 1 ? "files.place.to_path" : "files.place.to_folder")}
            description={text("files.place.help")}
            value={destination}
            onChange={({ currentTarget }) => setDestination(currentTarget.value)}
            error={refused === null ? null : <UserText>{failedAt === null || sources.length === 1 ? refused : `${failedAt}: ${refused}`}</UserText>}
            ref={field}
            maxLength={4096}
            data-autofocus
          />
          <Checkbox
            label={text("files.place.overwrite")}
            checked={overwrite}
            onChange={({ currentTarget }) => setOverwrite(currentTarget.checked)}
          />
          {mutation.isError && refused === null ? (
            <ProblemView
              error={mutation.error}
              {...(failedAt === null ? {} : { title: text("files.place.failed_file", { path: visible(failedAt) }) })}
            />
          ) : null}
          <Group justify="flex-end" gap="xs">
            {mutation.isPending && sources.length > 1 ? (
              <Text size="xs">{text("files.place.progress", { done, count: sources.length })}</Text>
            ) : null}
            <Button variant="default" onClick={close}>
              {text("ui.keep")}
            </Button>
            <Button type="submit" disabled={unchanged} loading={mutation.isPending}>
              {text(`files.place.${how}`, { count: sources.length })}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

/** Why the destination cannot be; null where it is not the reason. */
function refusalOf(error: unknown): string | null {
  const { status, title, detail, hint } = asProblem(error);
  return DESTINATION_REFUSED.has(status) ? [detail || title, hint ?? ""].join(" ").trim() : null;
}

const DESTINATION_REFUSED: ReadonlySet<number> = new Set([400, 403, 404, 409, 412, 422]);
