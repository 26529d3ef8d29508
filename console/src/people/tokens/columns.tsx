/** The columns of the list of all tokens. */

import type { OwnedToken } from "../../api/schema";
import { text } from "../../texts";
import type { Column } from "../../ui/tables/DataTable";
import { Foreign, visible } from "../../ui/Foreign";
import { Moment } from "../../ui/Moment";
import { RowActs } from "../Rows";

export function tokenColumns(revoke: (token: OwnedToken, all: boolean) => void): Column<OwnedToken>[] {
  return [
    {
      id: "owner",
      head: text("people.tokens.owner"),
      width: "minmax(120px, 1fr)",
      cell: ({ member_name, member_kind }) => (
        <Foreign cut>{member_kind === "person" ? member_name : `${member_name} ${text("people.tokens.of_service_account")}`}</Foreign>
      ),
    },
    { id: "name", head: text("people.tokens.name"), width: "minmax(120px, 2fr)", cell: ({ name }) => <Foreign cut>{name}</Foreign> },
    {
      id: "scopes",
      head: text("people.scopes.title"),
      width: "minmax(120px, 2fr)",
      cell: ({ scopes }) => <Foreign cut>{scopes === null ? text("people.scopes.none") : scopes.join(", ")}</Foreign>,
    },
    { id: "created", head: text("people.tokens.created"), width: "110px", cell: ({ created_at }) => <Moment at={created_at} /> },
    { id: "expires", head: text("people.tokens.expires"), width: "110px", cell: ({ expires_at }) => <Moment at={expires_at} /> },
    {
      id: "acts",
      head: text("people.acts"),
      width: "44px",
      cell: (token) => (
        <RowActs
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
