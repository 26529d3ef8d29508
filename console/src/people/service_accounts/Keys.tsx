/** The keys of a service account. */

import { Button, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, done } from "../../api/client";
import type { ServiceAccount, Token } from "../../api/schema";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { visible } from "../../ui/UserText";
import { ProblemView } from "../../ui/ProblemView";
import { SCOPES, TOKEN_LIFETIMES } from "../fields";
import { keysQuery } from "../queries";
import { NewTokenDialog, type NewToken } from "../tokens/NewTokenDialog";
import { TokenRows } from "../tokens/TokenRows";
import { RotateKeyDialog } from "./RotateKeyDialog";

type Asked = { act: "make" } | { act: "revoke" | "rotate"; token: Token };

export function Keys({ account }: { account: ServiceAccount }) {
  const queries = useQueryClient();
  const keys = useQuery(keysQuery(account.name));
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = () => setAsked(null);
  const again = () => queries.invalidateQueries({ queryKey: keysQuery(account.name).queryKey });
  const make = async (key: NewToken, idempotencyKey: string) => {
    const params = { path: { name: account.name }, header: { "Idempotency-Key": idempotencyKey } };
    const made = await body(api.POST("/v1/service-accounts/{name}/keys", { params, body: key }));
    await again();
    return made.token;
  };
  const revoke = async (id: string) => {
    const path = { name: account.name, key_id: id };
    await done(api.DELETE("/v1/service-accounts/{name}/keys/{key_id}", { params: { path } }));
    await again();
  };
  const found = keys.data?.keys ?? [];
  return (
    <>
      {keys.isError ? <ProblemView error={keys.error} retry={() => void keys.refetch()} /> : null}
      {keys.isSuccess && found.length === 0 ? <Text size="sm">{text("people.keys.none")}</Text> : null}
      <TokenRows
        label={text("people.keys.of", { name: visible(account.name) })}
        tokens={found}
        unlimited={text("people.keys.as_account")}
        acts={(token) => [
          { label: text("people.keys.rotate"), run: () => setAsked({ act: "rotate", token }) },
          { label: text("people.keys.revoke"), run: () => setAsked({ act: "revoke", token }), dangerous: true },
        ]}
      />
      <Button variant="default" mt={4} onClick={() => setAsked({ act: "make" })}>
        {text("people.keys.make", { name: visible(account.name) })}
      </Button>
      {asked?.act === "make" ? (
        <NewTokenDialog
          title={text("people.keys.make", { name: visible(account.name) })}
          made={text("people.keys.made", { name: visible(account.name) })}
          scopes={account.scopes ?? SCOPES}
          lifetime={TOKEN_LIFETIMES[3]}
          make={make}
          close={close}
        />
      ) : null}
      {asked?.act === "rotate" ? (
        <RotateKeyDialog account={account.name} token={asked.token} done={again} close={close} />
      ) : null}
      {asked?.act === "revoke" ? (
        <Confirm opened close={close} title={text("people.keys.revoke")} verb={text("people.keys.revoke")} act={() => revoke(asked.token.id)}>
          <Text>{text("people.keys.revoke_details", { key: visible(asked.token.name), name: visible(account.name) })}</Text>
        </Confirm>
      ) : null}
    </>
  );
}
