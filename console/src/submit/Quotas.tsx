/** What is left of the quotas that count the job, and which of them may refuse it. */

import { Text } from "@mantine/core";
import { text } from "../texts";
import { UserText } from "../ui/UserText";
import { money } from "../ui/format";
import type { CountingQuota } from "./quotas";

const MOST = 6;

export function Quotas({ quotas }: { quotas: readonly CountingQuota[] }) {
  if (quotas.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        {text("submit.quota.none")}
      </Text>
    );
  }
  return quotas.slice(0, MOST).map((each) => (
    <Text size="sm" key={each.quota.scope} {...(each.refuses === null ? {} : { fw: 600, role: "alert" })}>
      <UserText>{textOf(each)}</UserText>
    </Text>
  ));
}

function textOf({ quota: { scope, name, limit }, left, over, refuses }: CountingQuota): string {
  const whole = money(Number(limit.amount));
  const state =
    over > 0
      ? text(`submit.quota.${scope}_over`, { name, over: money(over), limit: whole })
      : text(`submit.quota.${scope}`, { name, left: money(left), limit: whole });
  return refuses === null ? state : `${state} ${text(`submit.quota.refuses_${refuses}`)}`;
}
