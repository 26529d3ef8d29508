/** Budgets and quotas: what is used of them, and for admins how they are set. */

import { JOB_ENDS } from "../../live/event";
import { Button, Group, Skeleton, Text, Title } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { profileQuery, refetchQuery } from "../../api/queries";
import type { BudgetView, QuotaView } from "../../api/schema";
import { useIsAdmin } from "../../app/useIsAdmin";
import { useLiveRefetch } from "../../live/useLive";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { Empty } from "../../ui/Empty";
import { UserText } from "../../ui/UserText";
import { ProblemView } from "../../ui/ProblemView";
import { BudgetForm } from "./BudgetForm";
import { BudgetRow } from "./BudgetRow";
import classes from "../money.module.css";
import { budgetGone, budgetsQuery, deleteBudget, deleteQuota, quotaGone, quotasQuery } from "../queries";
import { QuotaForm } from "./QuotaForm";
import { QuotaRow } from "./QuotaRow";

type Action =
  | { of: "quota"; act: "set"; quota: QuotaView | null }
  | { of: "quota"; act: "delete"; quota: QuotaView }
  | { of: "budget"; act: "set"; budget: BudgetView | null }
  | { of: "budget"; act: "delete"; budget: BudgetView };

/** What is used changes when jobs are submitted and when they have ended. */
const JOBS = ["job.submitted", ...JOB_ENDS];

export function LimitsTab() {
  const profile = useQuery(profileQuery);
  const budgets = useQuery(budgetsQuery);
  const quotas = useQuery(quotasQuery);
  const [act, setAct] = useState<Action | null>(null);
  useLiveRefetch(["quota.", ...JOBS], () => refetchQuery(quotas));
  useLiveRefetch(["budget.", ...JOBS], () => refetchQuery(budgets));
  const admin = useIsAdmin();
  return (
    <>
      <Section
        of="budgets"
        admin={admin}
        add={() => setAct({ of: "budget", act: "set", budget: null })}
        error={budgets.error}
        retry={() => void budgets.refetch()}
        rows={budgets.data?.budgets.map((budget) => (
          <BudgetRow
            key={`${budget.scope}/${budget.name}`}
            budget={budget}
            acts={admin ? { change: () => setAct({ of: "budget", act: "set", budget }), remove: () => setAct({ of: "budget", act: "delete", budget }) } : null}
          />
        ))}
      />
      <Section
        of="quotas"
        admin={admin}
        add={() => setAct({ of: "quota", act: "set", quota: null })}
        error={quotas.error}
        retry={() => void quotas.refetch()}
        rows={quotas.data?.quotas.map((quota) => (
          <QuotaRow
            key={`${quota.scope}/${quota.name}`}
            quota={quota}
            acts={admin ? { change: () => setAct({ of: "quota", act: "set", quota }), remove: () => setAct({ of: "quota", act: "delete", quota }) } : null}
          />
        ))}
      />
      <Acts act={act} tenant={profile.data?.tenant.id ?? ""} close={() => setAct(null)} />
    </>
  );
}

interface SectionProps {
  of: "budgets" | "quotas";
  admin: boolean;
  add: () => void;
  error: Error | null;
  retry: () => void;
  /** Undefined while they are read. */
  rows: ReactNode[] | undefined;
}

function Section({ of, admin, add, error, retry, rows }: SectionProps) {
  return (
    <section className={classes.section} aria-label={text(`money.${of}.title`)}>
      <Group justify="space-between" gap="xs">
        <Title order={2} fz="lg">
          {text(`money.${of}.title`)}
        </Title>
        {admin ? <Button onClick={add}>{text(`money.${of}.add`)}</Button> : null}
      </Group>
      <Text size="sm" c="dimmed">
        {text(`money.${of}.details`)} {admin ? "" : text("money.limit.admins")}
      </Text>
      {error === null ? null : <ProblemView error={error} retry={retry} />}
      {rows === undefined && error === null ? <Skeleton height={96} mt="xs" role="status" aria-label={text("ui.loading")} /> : null}
      {rows?.length === 0 ? <Empty title={text(`money.${of}.none`)}>{text(`money.${of}.none_details`)}</Empty> : null}
      {rows !== undefined && rows.length > 0 ? <ul className={classes.limits}>{rows}</ul> : null}
    </section>
  );
}

interface ActsProps {
  act: Action | null;
  tenant: string;
  close: () => void;
}

/** The form or the question of what is being done. */
function Acts({ act, tenant, close }: ActsProps) {
  const queries = useQueryClient();
  if (act === null) return null;
  if (act.act === "set") {
    return act.of === "quota" ? (
      <QuotaForm quota={act.quota} tenant={tenant} close={close} />
    ) : (
      <BudgetForm budget={act.budget} tenant={tenant} close={close} />
    );
  }
  const given = act.of === "quota" ? act.quota : act.budget;
  const of = act.of === "quota" ? "quotas" : "budgets";
  async function remove() {
    if (of === "quotas") {
      await deleteQuota(given);
      queries.setQueryData(quotasQuery.queryKey, quotaGone(given));
    } else {
      await deleteBudget(given);
      queries.setQueryData(budgetsQuery.queryKey, budgetGone(given));
    }
  }
  return (
    <Confirm opened close={close} title={text(`money.${of}.remove_title`)} verb={text(`money.${of}.remove_verb`)} act={remove}>
      <Text size="sm">
        {text(`money.scope.${given.scope}`)} <UserText>{given.name}</UserText>. {text(`money.${of}.remove_details`)}
      </Text>
    </Confirm>
  );
}
