/** The tokens of one owner, or the keys of a service account, in a short table. */

import { Table } from "@mantine/core";
import type { Token } from "../../api/schema";
import { text } from "../../texts";
import { UserText, visible } from "../../ui/UserText";
import { Moment } from "../../ui/Moment";
import { LastUsed } from "./LastUsed";
import { RowActions, type RowAction } from "../../ui/tables/RowActions";
import { Rows } from "../Rows";

const HEADS = ["name", "limited", "created", "used", "expires"] as const;

interface Props {
  label: string;
  tokens: readonly Token[];
  /** What is said of a token that is limited to no scopes. */
  unlimited: string;
  acts: (token: Token) => readonly RowAction[];
}

export function TokenRows({ label, tokens, unlimited, acts }: Props) {
  if (tokens.length === 0) return null;
  return (
    <Rows label={label} heads={[...HEADS.map((head) => text(`people.tokens.${head}`)), ""]}>
      {tokens.map((token) => (
        <Table.Tr key={token.id}>
          <Table.Td>
            <UserText>{token.name}</UserText>
          </Table.Td>
          <Table.Td>{token.scopes === null ? unlimited : token.scopes.join(", ")}</Table.Td>
          <Table.Td>
            <Moment at={token.created_at} />
          </Table.Td>
          <Table.Td>
            <LastUsed at={token.last_used_at} />
          </Table.Td>
          <Table.Td>
            <Moment at={token.expires_at} />
          </Table.Td>
          <Table.Td w={40}>
            <RowActions of={visible(token.name)} acts={acts(token)} />
          </Table.Td>
        </Table.Tr>
      ))}
    </Rows>
  );
}
