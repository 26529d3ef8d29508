/** Makes a service account. Its keys are made afterwards. */

import { Select, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, body } from "../../api/client";
import type { Scope } from "../../api/schema";
import { text } from "../../texts";
import { FormDialog } from "../../ui/forms/FormDialog";
import { Scopes, SCOPES } from "../fields";
import { serviceAccountsQuery } from "../queries";

const ROLES = ["viewer", "member", "admin"] as const;
const NAME = /^[a-z_][a-z0-9_-]{0,30}$/;
/** SCIM is for accounts of a directory, which may do nothing else. */
const CHOICES: readonly Scope[] = [...SCOPES, "scim"];

export function NewServiceAccountDialog({ close }: { close: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [role, setRole] = useState<(typeof ROLES)[number]>("member");
  const [scopes, setScopes] = useState<Scope[] | null>(null);
  const [key, setKey] = useState(() => crypto.randomUUID());
  const making = useMutation({
    mutationFn: () =>
      body(
        api.POST("/v1/service-accounts", {
          params: { header: { "Idempotency-Key": key } },
          body: { name, role, description: description.trim(), ...(scopes === null ? {} : { scopes }) },
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: serviceAccountsQuery.queryKey });
      close();
    },
    onError: () => setKey(crypto.randomUUID()),
  });
  const ready = NAME.test(name) && (scopes === null || scopes.length > 0);
  return (
    <FormDialog title={text("people.accounts.new")} verb={text("people.accounts.make")} ready={ready} sending={making} close={close}>
      <TextInput
        label={text("people.accounts.name")}
        description={text("people.accounts.name_details")}
        value={name}
        maxLength={31}
        required
        data-autofocus
        error={name !== "" && !NAME.test(name) ? text("people.accounts.wrong_name") : null}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <TextInput
        label={text("people.accounts.description")}
        value={description}
        maxLength={200}
        onChange={(event) => setDescription(event.currentTarget.value)}
      />
      <Select
        label={text("people.role")}
        data={ROLES.map((each) => ({ value: each, label: text(`app.role.${each}`) }))}
        value={role}
        onChange={(chosen) => chosen && setRole(chosen as (typeof ROLES)[number])}
        description={text(`people.roles.${role}`)}
      />
      <Scopes choices={CHOICES} value={scopes} onChange={setScopes} />
    </FormDialog>
  );
}
