/** The columns of the list of all tokens. */

import type { OwnedToken } from "../../api/schema";
import { text } from "../../texts";
import type { Column } from "../../ui/tables/DataTable";
import { UserText, visible } from "../../ui/UserText";
import { Moment } from "../../ui/Moment";
import { LastUsed } from "./LastUsed";
import { RowActions } from "../../ui/tables/RowActions";

export function tokenColumns(revoke: (token: OwnedToken, all: boolean) => void): Column<OwnedToken>[] {
  return [
    {
      id: "owner",
      head: text("people.tokens.owner"),
      width: "minmax(120px, 1fr)",
      cell: ({ member_name, member_kind }) => (
        <UserText cut>{member_kind === "person" ? member_name : `${member_name} ${text("people.tokens.of_service_account")}`}</UserText>
      ),
    },
    { id: "name", head: text("people.tokens.name"), width: "minmax(120px, 2fr)", cell: ({ name }) => <UserText cut>{name}</UserText> },
    {
      id: "scopes",
      head: text("people.scopes.title"),
      width: "minmax(120px, 2fr)",
      cell: ({ scopes }) => <UserText cut>{scopes === null ? text("people.scopes.none") : scopes.join(", ")}</UserText>,
    },
    { id: "created", head: text("people.tokens.created"), width: "110px", cell: ({ created_at }) => <Moment at={created_at} /> },
    { id: "used", head: text("people.tokens.used"), width: "140px", cell: ({ last_used_at }) => <LastUsed at={last_used_at} /> },
    { id: "expires", head: text("people.tokens.expires"), width: "110px", cell: ({ expires_at }) => <Moment at={expires_at} /> },
    {
      id: "acts",
      head: text("people.acts"),
      width: "44px",
      cell: (token) => (
        <RowActions
          of={visible(token.name)}
          acts={[
            { label: text("people.tokens.revoke"), run: () => revoke(token, false), dangerous: true },
            { label: text("people.tokens.revoke_all"), run: () => revoke(token, true), dangerous: true },
          ]}
        />
      ),
    },
  ];
}
