/** Makes a new key in place of another one, which stays valid for a while. */

import { Text } from "@mantine/core";
import { useState } from "react";
import { api, body } from "../../api/client";
import type { Token } from "../../api/schema";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";
import { Lifetime } from "../../ui/forms/Lifetime";
import { SecretDialog } from "../../ui/forms/SecretDialog";
import { OVERLAPS, TOKEN_LIFETIMES } from "../fields";

interface Props {
  account: string;
  token: Token;
  done: () => Promise<void>;
  close: () => void;
}

export function RotateKeyDialog({ account, token, done, close }: Props) {
  const [overlap, setOverlap] = useState<number>(OVERLAPS[2]);
  const [seconds, setSeconds] = useState<number>(TOKEN_LIFETIMES[3]);
  const rotate = async (key: string) => {
    const params = { path: { name: account, key_id: token.id }, header: { "Idempotency-Key": key } };
    const made = await body(
      api.POST("/v1/service-accounts/{name}/keys/{key_id}/rotate", {
        params,
        body: { overlap_seconds: overlap, expires_in_seconds: seconds },
      }),
    );
    await done();
    return made.token;
  };
  return (
    <SecretDialog
      title={text("people.keys.rotate")}
      made={text("people.keys.made", { name: visible(account) })}
      verb={text("people.keys.rotate")}
      ready
      make={rotate}
      advice={text("people.tokens.advice")}
      close={close}
    >
      <Text>{text("people.keys.rotate_details", { key: visible(token.name), name: visible(account) })}</Text>
      <Lifetime label={text("people.overlap")} choices={OVERLAPS} value={overlap} onChange={setOverlap} />
      <Lifetime label={text("people.tokens.valid")} choices={TOKEN_LIFETIMES} value={seconds} onChange={setSeconds} />
    </SecretDialog>
  );
}
