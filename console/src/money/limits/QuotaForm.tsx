/** Sets a quota, or changes one. What each mode does is said before it is chosen. */

import { Button, Group, Modal, NumberInput, Radio, Stack } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import type { QuotaView } from "../../api/schema";
import { text } from "../../texts";
import { visible } from "../../ui/Foreign";
import { ProblemView } from "../../ui/ProblemView";
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

  function send(event: FormEvent) {
    event.preventDefault();
    if (ready && !setting.isPending) setting.mutate();
  }

  const title = quota === null ? text("money.quotas.add") : text("money.quotas.edit", { name: visible(quota.name) });
  return (
    <Modal opened onClose={close} title={title}>
      <form onSubmit={send}>
        <Stack gap="sm">
          <LimitFields values={values} fixed={quota !== null} zero tenant={tenant} change={setValues} />
          <Radio.Group label={text("money.quotas.mode")} value={mode} onChange={(value) => setMode(MODES.find((each) => each === value) ?? "warn")}>
            <Stack gap={6} mt={4}>
              {MODES.map((each) => (
                <Radio key={each} size="xs" value={each} label={text(`money.quotas.modes.${each}`)} description={text(`money.quotas.mode_details.${each}`)} />
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
          {setting.isError ? <ProblemView error={setting.error} /> : null}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              {text("ui.keep")}
            </Button>
            <Button type="submit" loading={setting.isPending} disabled={!ready}>
              {text("money.limit.save")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
