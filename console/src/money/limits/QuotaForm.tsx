/** Sets a quota, or changes one. What each mode does is said before it is chosen. */

import { NumberInput, Radio, Stack } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { QuotaView } from "../../api/schema";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";
import { FormDialog } from "../../ui/forms/FormDialog";
import { written } from "../amounts";
import { LimitFields, validLimit, type LimitValues } from "./LimitFields";
import { quotaSet, quotasQuery, setQuota } from "../queries";

type Mode = QuotaView["mode"];
const MODES: readonly Mode[] = ["warn", "block", "block_and_kill"];
const MOST_BUFFER = 1_000;

interface Props {
  /** The one to change; null for a new one. */
  quota: QuotaView | null;
  tenant: string;
  close: () => void;
}

export function QuotaForm({ quota, tenant, close }: Props) {
  const queries = useQueryClient();
  const [values, setValues] = useState<LimitValues>(
    quota === null ? { scope: "user", name: "", limit: "" } : { scope: quota.scope, name: quota.name, limit: quota.limit.amount },
  );
  const [mode, setMode] = useState<Mode>(quota?.mode ?? "warn");
  const [buffer, setBuffer] = useState(quota?.buffer_percent ?? 0);
  const ready = values.name.trim() !== "" && validLimit(values.limit, true);
  const setting = useMutation({
    mutationFn: () => setQuota({ scope: values.scope, name: values.name.trim() }, { limit: written(values.limit) ?? "", mode, buffer_percent: buffer }),
    onSuccess: (set) => {
      queries.setQueryData(quotasQuery.queryKey, quotaSet(set));
      close();
    },
  });

  const title = quota === null ? text("money.quotas.add") : text("money.quotas.edit", { name: visible(quota.name) });
  return (
    <FormDialog title={title} verb={text("money.limit.save")} ready={ready} sending={setting} close={close}>
      <LimitFields values={values} fixed={quota !== null} zero tenant={tenant} change={setValues} />
      <Radio.Group label={text("money.quotas.mode")} value={mode} onChange={(value) => setMode(MODES.find((each) => each === value) ?? "warn")}>
        <Stack gap={6} mt={4}>
          {MODES.map((each) => (
            <Radio key={each} value={each} label={text(`money.quotas.modes.${each}`)} description={text(`money.quotas.mode_details.${each}`)} />
          ))}
        </Stack>
      </Radio.Group>
      <NumberInput
        label={text("money.quotas.buffer")}
        description={text("money.quotas.buffer_note")}
        min={0}
        max={MOST_BUFFER}
        allowDecimal={false}
        value={buffer}
        onChange={(value) => setBuffer(typeof value === "number" ? value : 0)}
        w={280}
      />
    </FormDialog>
  );
}
