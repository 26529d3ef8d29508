/** Invites somebody by their e-mail address. The link is shown once: the gateway sends no mail. */

import { Select, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body } from "../../api/client";
import { text } from "../../texts";
import { Lifetime } from "../../ui/forms/Lifetime";
import { SecretDialog } from "../../ui/forms/SecretDialog";
import { INVITATION_LIFETIMES } from "../fields";
import { invitationsQuery } from "../queries";

const ROLES = ["viewer", "member", "admin"] as const;
const ADDRESS = /^[^@\s]{1,64}@[A-Za-z0-9.-]{1,253}$/;

export function InviteDialog({ close }: { close: () => void }) {
  const queries = useQueryClient();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<(typeof ROLES)[number]>("member");
  const [seconds, setSeconds] = useState<number>(INVITATION_LIFETIMES[1]);
  const invite = async (key: string) => {
    const { token, ...invitation } = await body(
      api.POST("/v1/invitations", {
        params: { header: { "Idempotency-Key": key } },
        body: { email: email.trim(), role, expires_in_seconds: seconds },
      }),
    );
    queries.setQueryData(invitationsQuery.queryKey, (list) =>
      list === undefined
        ? list
        : { invitations: [...list.invitations.filter(({ id }) => id !== invitation.id), invitation], total: list.total + 1 },
    );
    return `${location.origin}/invitation#${token}`;
  };
  return (
    <SecretDialog
      title={text("people.invite.title")}
      made={text("people.invite.made")}
      verb={text("people.invite.verb")}
      ready={ADDRESS.test(email.trim())}
      make={invite}
      advice={text("people.invite.advice")}
      close={close}
    >
      <TextInput
        type="email"
        label={text("people.members.email")}
        value={email}
        maxLength={254}
        required
        data-autofocus
        onChange={(event) => setEmail(event.currentTarget.value)}
      />
      <Select
        label={text("people.role")}
        data={ROLES.map((each) => ({ value: each, label: text(`app.role.${each}`) }))}
        value={role}
        onChange={(chosen) => chosen && setRole(chosen as (typeof ROLES)[number])}
        description={text(`people.roles.${role}`)}
      />
      <Lifetime label={text("people.invite.valid")} choices={INVITATION_LIFETIMES} value={seconds} onChange={setSeconds} />
    </SecretDialog>
  );
}
