/** Sets a budget, or changes one, with the parts of it at which an event is told. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { BudgetView, Threshold } from "../../api/schema";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";
import { FormDialog } from "../../ui/forms/FormDialog";
import { written } from "../amounts";
import { LimitFields, validLimit, type LimitValues } from "./LimitFields";
import { budgetSet, budgetsQuery, setBudget } from "../queries";
import { ThresholdFields } from "./ThresholdFields";

const USUAL: readonly Threshold[] = [
  { measure: "actual", percent: 80 },
  { measure: "actual", percent: 100 },
  { measure: "forecast", percent: 100 },
];

interface Props {
  /** The one to change; null for a new one. */
  budget: BudgetView | null;
  tenant: string;
  close: () => void;
}

export function BudgetForm({ budget, tenant, close }: Props) {
  const queries = useQueryClient();
  const [values, setValues] = useState<LimitValues>(
    budget === null ? { scope: "user", name: "", limit: "" } : { scope: budget.scope, name: budget.name, limit: budget.limit.amount },
  );
  const [thresholds, setThresholds] = useState<readonly Threshold[]>(
    budget === null ? USUAL : budget.thresholds.map(({ measure, percent }) => ({ measure, percent })),
  );
  const ready = values.name.trim() !== "" && validLimit(values.limit, false) && thresholds.length > 0;
  const setting = useMutation({
    mutationFn: () => setBudget({ scope: values.scope, name: values.name.trim() }, { limit: written(values.limit) ?? "", thresholds: [...thresholds] }),
    onSuccess: (set) => {
      queries.setQueryData(budgetsQuery.queryKey, budgetSet(set));
      close();
    },
  });

  const title = budget === null ? text("money.budgets.add") : text("money.budgets.edit", { name: visible(budget.name) });
  return (
    <FormDialog title={title} verb={text("money.limit.save")} ready={ready} sending={setting} close={close}>
      <LimitFields values={values} fixed={budget !== null} zero={false} tenant={tenant} change={setValues} />
      <ThresholdFields thresholds={thresholds} change={setThresholds} />
    </FormDialog>
  );
}
