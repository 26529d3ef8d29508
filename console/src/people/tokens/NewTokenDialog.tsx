/** Makes a token of one's own, or a key of a service account. */

import { TextInput } from "@mantine/core";
import { useState } from "react";
import type { Scope } from "../../api/schema";
import { text } from "../../texts";
import { Lifetime } from "../../ui/forms/Lifetime";
import { SecretDialog } from "../../ui/forms/SecretDialog";
import { Scopes, TOKEN_LIFETIMES } from "../fields";

export interface NewToken {
  name: string;
  expires_in_seconds: number;
  scopes?: Scope[];
}

interface Props {
  title: string;
  /** The title where its secret is shown. */
  made: string;
  scopes: readonly Scope[];
  lifetime: (typeof TOKEN_LIFETIMES)[number];
  /** Makes it, and returns its secret. */
  make: (token: NewToken, idempotencyKey: string) => Promise<string>;
  close: () => void;
}

export function NewTokenDialog({ title, made, scopes: choices, lifetime, make, close }: Props) {
  const [name, setName] = useState("");
  const [seconds, setSeconds] = useState<number>(lifetime);
  const [scopes, setScopes] = useState<Scope[] | null>(null);
  const complete = name.trim() !== "" && (scopes === null || scopes.length > 0);
  return (
    <SecretDialog
      title={title}
      made={made}
      verb={text("people.tokens.make")}
      ready={complete}
      make={(key) => make({ name: name.trim(), expires_in_seconds: seconds, ...(scopes === null ? {} : { scopes }) }, key)}
      advice={text("people.tokens.advice")}
      close={close}
    >
      <TextInput
        label={text("people.tokens.name")}
        description={text("people.tokens.name_details")}
        value={name}
        maxLength={64}
        required
        data-autofocus
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Lifetime label={text("people.tokens.valid")} choices={TOKEN_LIFETIMES} value={seconds} onChange={setSeconds} />
      <Scopes choices={choices} value={scopes} onChange={setScopes} />
    </SecretDialog>
  );
}
