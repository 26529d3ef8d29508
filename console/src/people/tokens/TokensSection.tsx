/** The tokens of all members and service accounts. */

import { Group, Text, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, done } from "../../api/client";
import type { OwnedToken } from "../../api/schema";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { DataTable } from "../../ui/tables/DataTable";
import { Empty } from "../../ui/Empty";
import { visible } from "../../ui/UserText";
import { ProblemView } from "../../ui/ProblemView";
import { contains, tokensQuery } from "../queries";
import { TruncationNote } from "../Rows";
import { tokenColumns } from "./columns";

const route = getRouteApi("/c/$cluster/admin/$section");

interface Asked {
  token: OwnedToken;
  /** All tokens of its owner. */
  all: boolean;
}

export function TokensSection() {
  const { find } = route.useSearch();
  const navigate = route.useNavigate();
  const tokens = useQuery(tokensQuery);
  const [asked, setAsked] = useState<Asked | null>(null);
  const columns = useMemo(() => tokenColumns((token, all) => setAsked({ token, all })), []);
  const rows = useMemo(
    () => tokens.data?.rows.filter(({ name, member_name }) => contains(find, name, member_name)) ?? [],
    [tokens.data, find],
  );
  return (
    <>
      <Group mb="xs">
        <TextInput
          type="search"
          aria-label={text("people.tokens.find")}
          placeholder={text("people.tokens.find")}
          value={find ?? ""}
          maxLength={200}
          onChange={(event) => {
            const value = event.currentTarget.value;
            void navigate({ search: (before) => ({ ...before, find: value === "" ? undefined : value }), replace: true });
          }}
        />
      </Group>
      {tokens.isError ? <ProblemView error={tokens.error} retry={() => void tokens.refetch()} /> : null}
      <DataTable
        label={text("people.tokens.all")}
        rows={rows}
        columns={columns}
        rowId={({ id, member_id }) => `${member_id} ${id}`}
        empty={tokens.isSuccess ? <Empty title={text("people.tokens.none_all")}>{text("people.tokens.none_details")}</Empty> : null}
      />
      <TruncationNote shown={tokens.data?.rows.length ?? 0} when={tokens.data?.cut ?? false} />
      {asked === null ? null : <RevokeDialog asked={asked} close={() => setAsked(null)} />}
    </>
  );
}

function RevokeDialog({ asked: { token, all }, close }: { asked: Asked; close: () => void }) {
  const queries = useQueryClient();
  const owner = visible(token.member_name);
  const revoke = async () => {
    const path = { member_id: token.member_id, token_id: token.id };
    if (all) await done(api.DELETE("/v1/members/{member_id}/tokens", { params: { path: { member_id: token.member_id } } }));
    else await done(api.DELETE("/v1/members/{member_id}/tokens/{token_id}", { params: { path } }));
    queries.setQueryData(tokensQuery.queryKey, (list) =>
      list === undefined
        ? list
        : { ...list, rows: list.rows.filter((each) => each.member_id !== token.member_id || (!all && each.id !== token.id)) },
    );
  };
  const title = text(all ? "people.tokens.revoke_all" : "people.tokens.revoke");
  return (
    <Confirm opened close={close} title={title} verb={title} act={revoke}>
      <Text>
        {all
          ? text("people.tokens.revoke_all_of", { name: owner })
          : text("people.tokens.revoke_of", { token: visible(token.name), name: owner })}
      </Text>
    </Confirm>
  );
}
