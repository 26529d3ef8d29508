/** Asks before a member's rights change, and names the person. */

import { Select, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body, done } from "../../api/client";
import { profileQuery } from "../../api/queries";
import type { MemberView, Profile, Role } from "../../api/schema";
import { grantable, includes } from "../../app/permissions";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { visible } from "../../ui/UserText";
import { membersQuery, serviceAccountsQuery, tokensQuery } from "../queries";
import type { MemberAction } from "./columns";

interface Props {
  act: MemberAction;
  member: MemberView;
  by: Profile;
  close: () => void;
}

export function MemberDialog({ act, member, by, close }: Props) {
  const change = useChange(member, by);
  const queries = useQueryClient();
  const name = visible(member.email === "" ? member.name : `${member.display_name || member.name} (${member.email})`);
  const own = member.id === by.id;
  if (act === "role") return <RoleDialog member={member} by={by} name={name} change={change} close={close} />;
  if (act === "revoke") {
    const revoke = async () => {
      await done(api.DELETE("/v1/members/{member_id}/tokens", { params: { path: { member_id: member.id } } }));
      await queries.invalidateQueries({ queryKey: tokensQuery.queryKey });
    };
    return (
      <Confirm opened close={close} title={text("people.tokens.revoke_all")} verb={text("people.tokens.revoke_all")} act={revoke}>
        <Text>{text("people.tokens.revoke_all_of", { name })}</Text>
      </Confirm>
    );
  }
  return (
    <Confirm
      opened
      close={close}
      title={text(`people.members.${act}`)}
      verb={text(`people.members.${act}_name`, { name: visible(member.name) })}
      act={() => change({ disabled: act === "disable" })}
      dangerous={act === "disable"}
    >
      <Text>{text(`people.members.${act}_details`, { name })}</Text>
      {own && act === "disable" ? <Text fw={600}>{text("people.members.own")}</Text> : null}
    </Confirm>
  );
}

interface RoleProps {
  member: MemberView;
  by: Profile;
  name: string;
  change: (change: { role: Role }) => Promise<void>;
  close: () => void;
}

function RoleDialog({ member, by, name, change, close }: RoleProps) {
  const [role, setRole] = useState<Role>(member.role);
  const roles = grantable(by.role).filter((each) => each !== "owner" || member.kind === "person");
  const less = !includes(role, member.role);
  return (
    <Confirm
      opened
      close={close}
      title={text("people.members.change_role")}
      verb={text("people.members.make", { name: visible(member.name), role: text(`app.role.${role}`) })}
      act={() => change({ role })}
      dangerous={less}
      ready={role !== member.role}
    >
      <Text>{text("people.members.role_of", { name, role: text(`app.role.${member.role}`) })}</Text>
      <Select
        label={text("people.members.new_role")}
        data={roles.map((each) => ({ value: each, label: text(`app.role.${each}`) }))}
        value={role}
        onChange={(chosen) => chosen && setRole(chosen as Role)}
        description={text(`people.roles.${role}`)}
      />
      {member.id === by.id && less ? <Text fw={600}>{text("people.members.own")}</Text> : null}
    </Confirm>
  );
}

function useChange(member: MemberView, by: Profile): (change: { role?: Role; disabled?: boolean }) => Promise<void> {
  const queries = useQueryClient();
  return async (change) => {
    const params = { path: { member_id: member.id } };
    const changed = await body(api.PATCH("/v1/members/{member_id}", { params, body: change }));
    queries.setQueryData(membersQuery.queryKey, (list) =>
      list === undefined ? list : { ...list, rows: list.rows.map((each) => (each.id === changed.id ? changed : each)) },
    );
    if (changed.kind === "service_account") await queries.invalidateQueries({ queryKey: serviceAccountsQuery.queryKey });
    if (changed.id === by.id) await queries.invalidateQueries({ queryKey: profileQuery.queryKey });
  };
}
