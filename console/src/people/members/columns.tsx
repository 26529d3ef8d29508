/** The columns of the list of members. */

import type { MemberView, Profile } from "../../api/schema";
import { mayChange } from "../../app/permissions";
import { text } from "../../texts";
import type { Column } from "../../ui/tables/DataTable";
import { UserText, visible } from "../../ui/UserText";
import { Moment } from "../../ui/Moment";
import { RowActions } from "../../ui/tables/RowActions";

export type MemberAction = "role" | "disable" | "enable" | "revoke";

export function memberColumns(by: Profile, ask: (act: MemberAction, member: MemberView) => void): Column<MemberView>[] {
  return [
    {
      id: "person",
      head: text("people.members.person"),
      width: "minmax(140px, 2fr)",
      cell: ({ display_name, name, id }) => (
        <UserText cut>{`${display_name || name}${id === by.id ? ` ${text("people.members.you")}` : ""}`}</UserText>
      ),
    },
    { id: "user", head: text("people.members.user"), width: "minmax(90px, 1fr)", cell: ({ name }) => <UserText cut>{name}</UserText> },
    { id: "email", head: text("people.members.email"), width: "minmax(160px, 2fr)", cell: ({ email }) => <UserText cut>{email}</UserText> },
    { id: "role", head: text("people.role"), width: "90px", cell: ({ role }) => text(`app.role.${role}`) },
    {
      id: "state",
      head: text("people.members.state"),
      width: "90px",
      cell: ({ disabled }) => text(disabled ? "people.members.disabled" : "people.members.active"),
    },
    { id: "joined", head: text("people.members.joined"), width: "110px", cell: ({ joined_at }) => <Moment at={joined_at} /> },
    {
      id: "acts",
      head: text("people.acts"),
      width: "44px",
      cell: (member) =>
        mayChange(by, member) ? (
          <RowActions
            of={visible(member.name)}
            acts={[
              { label: text("people.members.change_role"), run: () => ask("role", member) },
              member.disabled
                ? { label: text("people.members.enable"), run: () => ask("enable", member) }
                : { label: text("people.members.disable"), run: () => ask("disable", member), dangerous: true },
              { label: text("people.tokens.revoke_all"), run: () => ask("revoke", member), dangerous: true },
            ]}
          />
        ) : null,
    },
  ];
}
