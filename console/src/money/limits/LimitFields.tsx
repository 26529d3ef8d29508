/** The fields that a budget and a quota have both: whose it is, and how much. */

import { Autocomplete, Group, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { membersQuery } from "../../people/queries";
import { text } from "../../texts";
import { written } from "../amounts";
import type { Scope } from "../queries";

export interface LimitValues {
  scope: Scope;
  name: string;
  limit: string;
}

const SCOPES: readonly Scope[] = ["user", "account", "tenant"];
const MOST_NAME = 256;
const MOST_SUGGESTIONS = 20;

interface Props {
  values: LimitValues;
  /** Whether it is there already, so that it stays whose it is. */
  fixed: boolean;
  /** Whether a limit of zero says something. */
  zero: boolean;
  tenant: string;
  change: (values: LimitValues) => void;
}

export function LimitFields({ values, fixed, zero, tenant, change }: Props) {
  const { scope, name, limit } = values;
  const members = useQuery({ ...membersQuery, enabled: !fixed && scope === "user" }).data;
  const stranger = !fixed && scope === "user" && name.trim() !== "" && members?.cut === false && members.rows.every((member) => member.name !== name.trim());
  const wrong = limit !== "" && !validLimit(limit, zero);
  return (
    <Group gap="xs" align="start">
      <Select
        label={text("money.limit.scope")}
        data={SCOPES.map((value) => ({ value, label: text(`money.scope.${value}`) }))}
        value={scope}
        disabled={fixed}
        onChange={(value) => {
          const chosen = SCOPES.find((each) => each === value) ?? "user";
          change({ ...values, scope: chosen, name: chosen === "tenant" ? tenant : scope === "tenant" ? "" : name });
        }}
        w={140}
      />
      <Autocomplete
        label={text("money.limit.name")}
        data={scope === "user" ? (members?.rows ?? []).map((member) => member.name) : []}
        limit={MOST_SUGGESTIONS}
        description={stranger ? text("money.limit.stranger") : null}
        inputWrapperOrder={["label", "input", "description", "error"]}
        value={name}
        disabled={fixed || scope === "tenant"}
        required
        maxLength={MOST_NAME}
        onChange={(chosen) => change({ ...values, name: chosen })}
        flex={1}
        miw={160}
        {...(fixed ? {} : { "data-autofocus": true })}
      />
      <TextInput
        label={text("money.limit.amount")}
        value={limit}
        required
        inputMode="decimal"
        error={wrong ? text(zero ? "money.limit.amount_invalid" : "money.limit.amount_zero") : null}
        onChange={(event) => change({ ...values, limit: event.currentTarget.value })}
        w={190}
        {...(fixed ? { "data-autofocus": true } : {})}
      />
    </Group>
  );
}

export function validLimit(limit: string, zero: boolean): boolean {
  const amount = written(limit);
  return amount !== null && (zero || Number(amount) > 0);
}
