/** A budget with what was used and what is expected, and when each threshold was reached. */

import { Text } from "@mantine/core";
import type { BudgetView } from "../../api/schema";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";
import { exact, short } from "../../ui/format";
import { amount, isReached, share } from "../amounts";
import { LimitBar } from "./LimitBar";
import { LimitHead } from "./LimitHead";
import classes from "../money.module.css";
import { Numbers } from "./Numbers";

interface Props {
  budget: BudgetView;
  acts: { change: () => void; remove: () => void } | null;
}

export function BudgetRow({ budget, acts }: Props) {
  const { scope, name, month, limit, actual, forecast, thresholds, stale, unknown, as_of, set_by, set_at } = budget;
  const numbers = [
    { label: text("money.limit.used"), value: amount(actual) },
    { label: text("money.limit.expected"), value: amount(forecast) },
    { label: text("money.limit.limit"), value: amount(limit) },
  ];
  return (
    <li className={classes.limit}>
      <LimitHead scope={scope} name={name} month={month} setBy={set_by} setAt={set_at} acts={acts} />
      {actual === null ? null : (
        <LimitBar
          label={`${text("money.budgets.title")}: ${text(`money.scope.${scope}`)} ${visible(name)}`}
          used={share(actual, limit)}
          expected={forecast === null ? undefined : share(forecast, limit)}
          ticks={thresholds.map(({ percent }) => percent / 100)}
          usedText={amount(actual)}
          limitText={amount(limit)}
        />
      )}
      <Numbers of={numbers} />
      <Text size="sm" mt={4} component="div">
        {text("money.budgets.thresholds")}:{" "}
        {thresholds.map(({ measure, percent, crossed_at }, index) => (
          <span key={`${measure} ${percent}`} title={crossed_at === null ? undefined : exact(new Date(crossed_at))}>
            {index > 0 ? "; " : ""}
            {text("money.budgets.threshold", { percent, measure: text(`money.budgets.${measure}`) })} (
            {crossed_at === null
              ? text(isReached(measure === "actual" ? actual : forecast, limit, percent) ? "money.budgets.crossing" : "money.budgets.not_crossed")
              : text("money.budgets.crossed", { when: short(new Date(crossed_at)) })}
            )
          </span>
        ))}
      </Text>
      <Text size="xs" c="dimmed" title={exact(new Date(as_of))}>
        {[text("money.as_of", { time: short(new Date(as_of)) }), unknown ? text("money.unknown_part") : "", stale ? text("money.stale") : ""].filter(Boolean).join(". ")}
      </Text>
    </li>
  );
}
