/** What a cluster costs now and in this month. What is not known is said. */

import { Text } from "@mantine/core";
import type { CostSummary } from "../api/schema";
import { text } from "../texts";
import { Figure, Figures } from "../ui/Figures";
import { count } from "../ui/format";
import { amount } from "./amounts";

interface Props {
  summary: CostSummary | undefined;
  /** Whether the amounts are of the person's own jobs. */
  own: boolean;
  now: number;
}

export function SummaryFigures({ summary, own, now }: Props) {
  const row = summary?.rows[0];
  const read = summary !== undefined;
  const shown = (given: Parameters<typeof amount>[0]) => (read ? (row === undefined ? null : amount(given)) : undefined);
  const first = `${new Date(now).toISOString().slice(0, 7)}-01`;
  return (
    <>
      {own ? (
        <Text size="sm" mb="xs">
          {text("money.own")}
        </Text>
      ) : null}
      <Figures label={text("money.figure.label")}>
        <Figure label={text("money.figure.burn_rate")} value={shown(row?.burn_rate_per_hour)} note={text("money.figure.burn_note")} />
        <Figure label={text("money.figure.pending")} value={shown(row?.pending_bill)} />
        <Figure
          label={text("money.figure.queued")}
          value={shown(row?.queued)}
          note={row !== undefined && row.queued === null ? text("money.figure.queued_unknown") : null}
        />
        <Figure label={text("money.figure.month")} value={shown(row?.month_to_date)} note={text("money.figure.month_note", { day: first })} />
        <Figure label={text("money.figure.forecast")} value={shown(row?.forecast)} note={text("money.figure.forecast_note")} />
        <Figure label={text("money.figure.running")} value={read ? (row === undefined ? null : count(row.running_jobs)) : undefined} />
      </Figures>
      {row?.stale ? (
        <Text size="sm" c="dimmed">
          {text("money.stale")}
        </Text>
      ) : null}
      {row?.unknown ? <Text size="sm">{text("money.unknown_part")}</Text> : null}
    </>
  );
}
