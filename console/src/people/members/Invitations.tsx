/** The open invitations. */

import { Table, Text, Title } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, done } from "../../api/client";
import type { InvitationView } from "../../api/schema";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { UserText, visible } from "../../ui/UserText";
import { Moment } from "../../ui/Moment";
import { ProblemView } from "../../ui/ProblemView";
import { invitationsQuery } from "../queries";
import { RowActions } from "../../ui/tables/RowActions";
import { Rows } from "../Rows";
import classes from "./Invitations.module.css";

export function Invitations() {
  const queries = useQueryClient();
  const invitations = useQuery(invitationsQuery);
  const [revoking, setRevoking] = useState<InvitationView | null>(null);
  const heads = ["email", "role", "invited_by", "expires"] as const;
  const open = invitations.data?.invitations ?? [];
  const revoke = async (id: string) => {
    await done(api.DELETE("/v1/invitations/{invitation_id}", { params: { path: { invitation_id: id } } }));
    queries.setQueryData(invitationsQuery.queryKey, (list) =>
      list === undefined ? list : { invitations: list.invitations.filter((each) => each.id !== id), total: list.total - 1 },
    );
  };
  return (
    <section className={classes.invitations} aria-labelledby="open-invitations">
      <Title order={2} fz="md" id="open-invitations">
        {text("people.invite.open", { count: open.length })}
      </Title>
      {invitations.isError ? <ProblemView error={invitations.error} retry={() => void invitations.refetch()} /> : null}
      {invitations.isSuccess && open.length === 0 ? (
        <Text size="sm" c="dimmed">
          {text("people.invite.none")}
        </Text>
      ) : null}
      {open.length > 0 ? (
        <Rows label={text("people.invite.list")} heads={[...heads.map((head) => text(`people.invite.${head}`)), ""]}>
          {open.map((invitation) => (
            <Table.Tr key={invitation.id}>
              <Table.Td>
                <UserText>{invitation.email}</UserText>
              </Table.Td>
              <Table.Td>{text(`app.role.${invitation.role}`)}</Table.Td>
              <Table.Td>
                <UserText>{invitation.invited_by}</UserText>
              </Table.Td>
              <Table.Td>
                <Moment at={invitation.expires_at} />
              </Table.Td>
              <Table.Td w={40}>
                <RowActions
                  of={visible(invitation.email)}
                  acts={[{ label: text("people.invite.revoke"), run: () => setRevoking(invitation), dangerous: true }]}
                />
              </Table.Td>
            </Table.Tr>
          ))}
        </Rows>
      ) : null}
      {revoking === null ? null : (
        <Confirm
          opened
          close={() => setRevoking(null)}
          title={text("people.invite.revoke")}
          verb={text("people.invite.revoke")}
          act={() => revoke(revoking.id)}
        >
          <Text>{text("people.invite.revoke_details", { email: visible(revoking.email) })}</Text>
        </Confirm>
      )}
    </section>
  );
}
