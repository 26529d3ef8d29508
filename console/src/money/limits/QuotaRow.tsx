/** A quota with what is used and left of it, and what it does, in words. */

import { Text } from "@mantine/core";
import type { QuotaView } from "../../api/schema";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";
import { amount, share } from "../amounts";
import { LimitBar } from "./LimitBar";
import { LimitHead } from "./LimitHead";
import classes from "../money.module.css";
import { Numbers } from "./Numbers";

interface Props {
  quota: QuotaView;
  acts: { change: () => void; remove: () => void } | null;
}

export function QuotaRow({ quota, acts }: Props) {
  const { scope, name, month, limit, used, left, mode, buffer_percent, set_by, set_at } = quota;
  const numbers = [
    { label: text("money.limit.used"), value: amount(used) },
    { label: text("money.limit.left"), value: amount(left) },
    { label: text("money.limit.limit"), value: amount(limit) },
  ];
  const ceiling = buffer_percent > 0 && mode !== "warn" ? ` ${text("money.quotas.ceiling", { percent: 100 + buffer_percent })}.` : "";
  return (
    <li className={classes.limit}>
      <LimitHead scope={scope} name={name} month={month} setBy={set_by} setAt={set_at} acts={acts} />
      <LimitBar
        label={`${text("money.quotas.title")}: ${text(`money.scope.${scope}`)} ${visible(name)}`}
        used={share(used, limit)}
        ticks={buffer_percent > 0 && mode !== "warn" ? [1 + buffer_percent / 100] : []}
        usedText={amount(used)}
        limitText={amount(limit)}
      />
      <Numbers of={numbers} />
      <Text size="sm" mt={4}>
        <strong>{text(`money.quotas.modes.${mode}`)}.</strong> {text(`money.quotas.mode_details.${mode}`)}
        {ceiling}
      </Text>
    </li>
  );
}
