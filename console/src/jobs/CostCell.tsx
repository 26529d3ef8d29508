/** What the job of a row cost, from the costs beside the list. */

import { use, useEffect } from "react";
import { text } from "../texts";
import { bareAmount, exact } from "../ui/format";
import { costOfRow, isFurtherOn, type RowCost } from "./list/costs";
import { CostsContext } from "./list/useListCosts";
import type { Row } from "./rows";

export function CostCell({ row }: { row: Row }) {
  const { costs, whole, readNext } = use(CostsContext);
  const lacking = isFurtherOn(row, costs);
  useEffect(() => {
    if (lacking) readNext();
  }, [lacking, readNext, costs]);
  const cost = costOfRow(row, costs.known, whole);
  return cost === null ? null : <span title={details(cost)}>{shown(cost)}</span>;
}

function shown({ amount, part }: RowCost): string {
  if (amount === null) return text("jobs.cost.unknown");
  return part ? text("jobs.cost.at_least", { amount: bareAmount(amount) }) : bareAmount(amount);
}

function details({ amount, asOf, part, stale }: RowCost): string | undefined {
  const said = [
    asOf === null ? "" : text("jobs.cost.as_of", { time: exact(new Date(asOf)) }),
    part && amount !== null ? text("jobs.cost.part") : "",
    stale ? text("jobs.cost.stale") : "",
  ].filter(Boolean);
  return said.length === 0 ? undefined : said.join(". ");
}
