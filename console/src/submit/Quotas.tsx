/** What is left of the quotas that count the job. */

import { Text } from "@mantine/core";
import type { QuotaView } from "../api/schema";
import { text } from "../texts";
import { Foreign } from "../ui/Foreign";
import { money } from "../ui/format";

const MOST = 6;

export function Quotas({ quotas }: { quotas: readonly QuotaView[] | null }) {
  if (quotas === null) return null;
  if (quotas.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        {text("submit.quota.none")}
      </Text>
    );
  }
  return quotas.slice(0, MOST).map(({ scope, name, left, limit }) => (
    <Text size="sm" key={`${scope} ${name}`}>
      <Foreign>
        {text(`submit.quota.${scope}`, { name, left: money(Number(left.amount)), limit: money(Number(limit.amount)) })}
      </Foreign>
    </Text>
  ));
}
