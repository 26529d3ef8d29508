/** Service accounts: members for programs, each with its keys. */

import { Button, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, done } from "../../api/client";
import { profileQuery } from "../../api/queries";
import type { MemberView, ServiceAccount } from "../../api/schema";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { Empty } from "../../ui/Empty";
import { UserText, visible } from "../../ui/UserText";
import { Moment } from "../../ui/Moment";
import { ProblemView } from "../../ui/ProblemView";
import { serviceAccountsQuery } from "../queries";
import type { MemberAction } from "../members/columns";
import { MemberDialog } from "../members/MemberDialog";
import { RowActions, type RowAction } from "../../ui/tables/RowActions";
import { Keys } from "./Keys";
import { NewServiceAccountDialog } from "./NewServiceAccountDialog";

export function ServiceAccountsSection() {
  const queries = useQueryClient();
  const accounts = useQuery(serviceAccountsQuery);
  const [making, setMaking] = useState(false);
  const [deleting, setDeleting] = useState<string | null>(null);
  const [asked, setAsked] = useState<{ act: MemberAction; account: ServiceAccount } | null>(null);
  const { data: profile } = useQuery(profileQuery);
  const found = accounts.data?.service_accounts ?? [];
  const remove = async (name: string) => {
    await done(api.DELETE("/v1/service-accounts/{name}", { params: { path: { name } } }));
    await queries.invalidateQueries({ queryKey: serviceAccountsQuery.queryKey });
  };
  return (
    <>
      <Group justify="space-between" mb="xs" gap="xs">
        <Text size="sm" c="dimmed">
          {text("people.accounts.details")}
        </Text>
        <Button onClick={() => setMaking(true)}>{text("people.accounts.new")}</Button>
      </Group>
      {accounts.isError ? <ProblemView error={accounts.error} retry={() => void accounts.refetch()} /> : null}
      {accounts.isSuccess && found.length === 0 ? (
        <Empty title={text("people.accounts.none")}>{text("people.accounts.none_details")}</Empty>
      ) : null}
      <Stack gap="lg">
        {found.map((account) => (
          <Account
            key={account.id}
            account={account}
            acts={[
              { label: text("people.members.change_role"), run: () => setAsked({ act: "role", account }) },
              account.disabled
                ? { label: text("people.members.enable"), run: () => setAsked({ act: "enable", account }) }
                : { label: text("people.members.disable"), run: () => setAsked({ act: "disable", account }), dangerous: true },
              { label: text("people.accounts.delete"), run: () => setDeleting(account.name), dangerous: true },
            ]}
          />
        ))}
      </Stack>
      {asked !== null && profile !== undefined ? (
        <MemberDialog act={asked.act} member={asMember(asked.account)} by={profile} close={() => setAsked(null)} />
      ) : null}
      {making ? <NewServiceAccountDialog close={() => setMaking(false)} /> : null}
      {deleting === null ? null : (
        <Confirm
          opened
          close={() => setDeleting(null)}
          title={text("people.accounts.delete")}
          verb={text("people.accounts.delete_name", { name: visible(deleting) })}
          act={() => remove(deleting)}
        >
          <Text>{text("people.accounts.delete_details", { name: visible(deleting) })}</Text>
        </Confirm>
      )}
    </>
  );
}

/** A service account is a member, whose role is changed as everybody's is. */
function asMember(account: ServiceAccount): MemberView {
  const { id, name, uid, role, disabled, created_at } = account;
  return { id, name, uid, role, disabled, joined_at: created_at, email: "", display_name: "", kind: "service_account" };
}

function Account({ account, acts }: { account: ServiceAccount; acts: readonly RowAction[] }) {
  const scopes = account.scopes === null ? text("people.accounts.unlimited") : account.scopes.join(", ");
  return (
    <section aria-labelledby={`account-${account.id}`}>
      <Group justify="space-between" gap="xs">
        <Title order={2} fz="md" id={`account-${account.id}`}>
          <UserText>{account.name}</UserText>
        </Title>
        <RowActions of={visible(account.name)} acts={acts} />
      </Group>
      {account.description ? (
        <Text size="sm">
          <UserText>{account.description}</UserText>
        </Text>
      ) : null}
      <Text size="sm" c="dimmed">
        {text(`app.role.${account.role}`)} · {scopes} · {text("people.accounts.made")} <Moment at={account.created_at} />
        {account.disabled ? ` · ${text("people.members.disabled")}` : ""}
      </Text>
      <Keys account={account} />
    </section>
  );
}
