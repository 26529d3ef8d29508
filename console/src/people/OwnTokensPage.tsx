/** One's own tokens, which programs use in place of a sign-in, and one's own links to jobs. */

import { Button, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, done } from "../api/client";
import type { Token } from "../api/schema";
import { useActions } from "../app/palette/actions";
import { text } from "../texts";
import { Confirm } from "../ui/forms/Confirm";
import { Empty } from "../ui/Empty";
import { visible } from "../ui/UserText";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { SCOPES, TOKEN_LIFETIMES } from "./fields";
import { OwnLinksSection } from "./OwnLinksSection";
import { ownTokensQuery } from "./queries";
import { NewTokenDialog, type NewToken } from "./tokens/NewTokenDialog";
import { TokenRows } from "./tokens/TokenRows";
import { usePeopleLive } from "./usePeopleLive";

export function OwnTokensPage() {
  const queries = useQueryClient();
  const tokens = useQuery(ownTokensQuery);
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  usePeopleLive();
  useActions([{ id: "token", label: text("people.tokens.new"), run: () => setMaking(true) }]);
  const make = async (token: NewToken, key: string) => {
    const made = await body(
      api.POST("/v1/users/me/tokens", { params: { header: { "Idempotency-Key": key } }, body: token }),
    );
    await queries.invalidateQueries({ queryKey: ownTokensQuery.queryKey });
    return made.token;
  };
  const revoke = async (id: string) => {
    await done(api.DELETE("/v1/users/me/tokens/{token_id}", { params: { path: { token_id: id } } }));
    queries.setQueryData(ownTokensQuery.queryKey, (list) =>
      list === undefined ? list : { tokens: list.tokens.filter((each) => each.id !== id), total: list.total - 1 },
    );
  };
  const own = tokens.data?.tokens ?? [];
  return (
    <Page
      title={text("app.person.tokens")}
      actions={<Button onClick={() => setMaking(true)}>{text("people.tokens.new")}</Button>}
    >
      <Text size="sm" c="dimmed" mb="xs">
        {text("people.tokens.details")}
      </Text>
      {tokens.isError ? <ProblemView error={tokens.error} retry={() => void tokens.refetch()} /> : null}
      {tokens.isSuccess && own.length === 0 ? (
        <Empty title={text("people.tokens.none")}>{text("people.tokens.none_details")}</Empty>
      ) : null}
      <TokenRows
        label={text("app.person.tokens")}
        tokens={own}
        unlimited={text("people.scopes.none")}
        acts={(token) => [{ label: text("people.tokens.revoke"), run: () => setRevoking(token), dangerous: true }]}
      />
      <OwnLinksSection />
      {making ? (
        <NewTokenDialog
          title={text("people.tokens.new")}
          made={text("people.tokens.made")}
          scopes={SCOPES}
          lifetime={TOKEN_LIFETIMES[2]}
          make={make}
          close={() => setMaking(false)}
        />
      ) : null}
      {revoking === null ? null : (
        <Confirm
          opened
          close={() => setRevoking(null)}
          title={text("people.tokens.revoke")}
          verb={text("people.tokens.revoke")}
          act={() => revoke(revoking.id)}
        >
          <Text>{text("people.tokens.revoke_own", { token: visible(revoking.name) })}</Text>
        </Confirm>
      )}
    </Page>
  );
}
