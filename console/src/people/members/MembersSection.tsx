/** The people of the tenant, and those who are invited. */

import { Button, Group, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { profileQuery } from "../../api/queries";
import type { MemberView } from "../../api/schema";
import { useActions } from "../../app/palette/actions";
import { text } from "../../texts";
import { DataTable } from "../../ui/tables/DataTable";
import { Empty } from "../../ui/Empty";
import { ProblemView } from "../../ui/ProblemView";
import { contains, membersQuery } from "../queries";
import { TruncationNote } from "../Rows";
import { memberColumns, type MemberAction } from "./columns";
import { Invitations } from "./Invitations";
import { InviteDialog } from "./InviteDialog";
import { MemberDialog } from "./MemberDialog";

const route = getRouteApi("/c/$cluster/admin/$section");

interface Asked {
  act: MemberAction;
  member: MemberView;
}

export function MembersSection() {
  const { find } = route.useSearch();
  const navigate = route.useNavigate();
  const { data: profile } = useQuery(profileQuery);
  const members = useQuery(membersQuery);
  const [asked, setAsked] = useState<Asked | null>(null);
  const [inviting, setInviting] = useState(false);
  useActions([{ id: "invite", label: text("people.invite.title"), run: () => setInviting(true) }]);
  const columns = useMemo(
    () => (profile === undefined ? [] : memberColumns(profile, (act, member) => setAsked({ act, member }))),
    [profile],
  );
  const rows = useMemo(() => {
    const people = members.data?.rows.filter(({ kind }) => kind === "person") ?? [];
    return people.filter(({ name, email, display_name }) => contains(find, name, email, display_name));
  }, [members.data, find]);
  return (
    <>
      <Group justify="space-between" mb="xs" gap="xs">
        <TextInput
          type="search"
          aria-label={text("people.find")}
          placeholder={text("people.find")}
          value={find ?? ""}
          maxLength={200}
          onChange={(event) => {
            const value = event.currentTarget.value;
            void navigate({ search: (before) => ({ ...before, find: value === "" ? undefined : value }), replace: true });
          }}
        />
        <Button onClick={() => setInviting(true)}>{text("people.invite.title")}</Button>
      </Group>
      {members.isError ? <ProblemView error={members.error} retry={() => void members.refetch()} /> : null}
      <DataTable
        label={text("people.section.members")}
        rows={rows}
        columns={columns}
        rowId={({ id }) => id}
        empty={members.isSuccess ? <Empty title={text("people.members.none")} /> : null}
      />
      <TruncationNote shown={members.data?.rows.length ?? 0} when={members.data?.cut ?? false} />
      <Invitations />
      {inviting ? <InviteDialog close={() => setInviting(false)} /> : null}
      {asked !== null && profile !== undefined ? (
        <MemberDialog act={asked.act} member={asked.member} by={profile} close={() => setAsked(null)} />
      ) : null}
    </>
  );
}
