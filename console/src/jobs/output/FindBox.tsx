/** What is searched in an output, with the steps to the next and the previous place. */

import { ActionIcon, TextInput } from "@mantine/core";
import { useEffect, useState } from "react";
import { text } from "../../texts";

const PAUSE_MS = 150;

interface Props {
  find: string;
  change: (find: string) => void;
  step: (by: number) => void;
}

export function FindBox({ find, change, step }: Props) {
  const [typed, setTyped] = useState(find);
  useEffect(() => setTyped(find), [find]);
  useEffect(() => {
    if (typed === find) return undefined;
    const timer = setTimeout(() => change(typed), PAUSE_MS);
    return () => clearTimeout(timer);
  });
  return (
    <>
      <TextInput
        type="search"
        aria-label={text("job.output.find")}
        placeholder={text("job.output.find")}
        maxLength={200}
        w={160}
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          if (typed === find) step(event.shiftKey ? -1 : 1);
          else change(typed);
        }}
      />
      <ActionIcon variant="default" aria-label={text("job.output.previous")} disabled={find === ""} onClick={() => step(-1)}>
        <span aria-hidden>↑</span>
      </ActionIcon>
      <ActionIcon variant="default" aria-label={text("job.output.next")} disabled={find === ""} onClick={() => step(1)}>
        <span aria-hidden>↓</span>
      </ActionIcon>
    </>
  );
}
