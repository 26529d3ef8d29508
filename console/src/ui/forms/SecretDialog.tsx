/** Makes something with a secret: a form, and afterwards the secret, which is shown once and kept nowhere. */

import { Button, Group, Stack, Text, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type CSSProperties, type ReactNode } from "react";
import { ProblemError } from "../../api/problem";
import { text } from "../../texts";
import { CopyButton } from "../CopyButton";
import { FormDialog } from "./FormDialog";
import { Dialog } from "../Dialog";

/** Each character as it is: ligatures would hide some. */
const SECRET: CSSProperties = { fontFamily: "var(--mantine-font-family-monospace)", wordBreak: "break-all", fontVariantLigatures: "none" };

interface Props {
  title: string;
  /** The title where the secret is shown, such as "New token". */
  made: string;
  /** The fields of the form. */
  children: ReactNode;
  verb: string;
  /** Whether the fields are complete. */
  ready: boolean;
  /** Makes it, and returns the secret. The key makes a repetition the same request. */
  make: (idempotencyKey: string) => Promise<string>;
  /** What to do with the secret. */
  advice: string;
  close: () => void;
}

export function SecretDialog({ title, made, children, verb, ready, make, advice, close }: Props) {
  const [key, setKey] = useState(() => crypto.randomUUID());
  // The cache of mutations would keep the secret; the component forgets it when it closes.
  const [secret, setSecret] = useState<string | null>(null);
  const making = useMutation({
    mutationFn: async () => setSecret(await make(key)),
    onError: (error) => {
      if (refused(error)) setKey(crypto.randomUUID());
    },
    gcTime: 0,
  });
  if (secret !== null) return <Once title={made} secret={secret} advice={advice} close={close} />;
  return (
    <FormDialog title={title} verb={verb} ready={ready} sending={making} close={close}>
      {children}
    </FormDialog>
  );
}

/** Closes by its button alone: a slip would lose the secret. */
function Once({ title, secret, advice, close }: { title: string; secret: string; advice: string; close: () => void }) {
  return (
    <Dialog close={close} title={title} closeOnClickOutside={false} closeOnEscape={false} withCloseButton={false}>
      <Stack gap="sm">
        <Text>
          <Text span fw={600} c="var(--state-waiting)">
            {text("ui.secret.once")}
          </Text>{" "}
          {advice}
        </Text>
        <Textarea
          aria-label={title}
          value={secret}
          readOnly
          spellCheck={false}
          autoComplete="off"
          autosize
          styles={{ input: SECRET }}
          data-testid="secret"
          data-autofocus
          onFocus={(event) => event.currentTarget.select()}
        />
        <Group justify="flex-end" gap="xs">
          <CopyButton value={secret} variant="filled" />
          <Button variant="default" onClick={close}>
            {text("ui.secret.done")}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}

/** Whether the request was surely not carried out, so that the next one is another one. */
function refused(error: Error): boolean {
  return error instanceof ProblemError && error.status >= 400 && error.status < 500 && error.status !== 409;
}
