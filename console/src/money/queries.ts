/** What the pages of money read and change. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, body, done } from "../api/client";
import { STALE_MS } from "../api/queries";
import type { BudgetList, BudgetView, CostReport, QuotaList, QuotaView, SetBudget, SetQuota } from "../api/schema";
import type { By } from "./byDay";
import { after, type Period } from "./period";

export type Scope = QuotaView["scope"];
export type Of = "cluster" | "user" | "account" | "tenant";

const PAGE = 1_000;
/** The most pages of a table: the exports have all rows. */
export const MOST_PAGES = 5;

export function costsQuery(cluster: string, period: Period, by: readonly By[]) {
  return infiniteQueryOptions({
    queryKey: ["costs", cluster, period, by],
    staleTime: STALE_MS,
    queryFn: async ({ pageParam, signal }): Promise<CostReport> => {
      const report = await body(
        api.GET("/v1/clusters/{cluster_id}/costs", {
          params: {
            path: { cluster_id: cluster },
            query: { from: period.from, to: after(period.until), by: [...by], format: "json", limit: PAGE, ...(pageParam === null ? {} : { cursor: pageParam }) },
          },
          signal,
        }),
      );
      // The same route answers with tables of text, where they are asked for.
      if (typeof report === "string") throw new TypeError("costs are no JSON");
      return report;
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page, pages) => (pages.length < MOST_PAGES ? page.cursor : null),
  });
}

/** The address of a table with all rows of the same query. */
export function exportAddress(cluster: string, period: Period, by: By, format: "csv" | "focus"): string {
  const query = new URLSearchParams({ from: period.from, to: after(period.until), by, format });
  return `/v1/clusters/${encodeURIComponent(cluster)}/costs?${query}`;
}

export function summaryQuery(cluster: string) {
  return queryOptions({
    queryKey: ["cost-summary", cluster],
    staleTime: STALE_MS,
    queryFn: ({ signal }) =>
      body(api.GET("/v1/clusters/{cluster_id}/costs/summary", { params: { path: { cluster_id: cluster }, query: { by: "cluster" } }, signal })),
  });
}

export function tenantSummaryQuery(of: Of) {
  return queryOptions({
    queryKey: ["cost-summary-of-tenant", of],
    staleTime: STALE_MS,
    queryFn: ({ signal }) => body(api.GET("/v1/cost-summary", { params: { query: { by: of } }, signal })),
  });
}

export const quotasQuery = queryOptions({
  queryKey: ["quotas"],
  queryFn: ({ signal }) => body(api.GET("/v1/quotas", { signal })),
});

export const budgetsQuery = queryOptions({
  queryKey: ["budgets"],
  queryFn: ({ signal }) => body(api.GET("/v1/budgets", { signal })),
});

interface Named {
  scope: Scope;
  name: string;
}

function path({ scope, name }: Named) {
  return { params: { path: { scope, scope_name: name } } };
}

export function setQuota(of: Named, quota: SetQuota): Promise<QuotaView> {
  return body(api.PUT("/v1/quotas/{scope}/{scope_name}", { ...path(of), body: quota }));
}

export function setBudget(of: Named, budget: SetBudget): Promise<BudgetView> {
  return body(api.PUT("/v1/budgets/{scope}/{scope_name}", { ...path(of), body: budget }));
}

export function deleteQuota(of: Named): Promise<void> {
  return done(api.DELETE("/v1/quotas/{scope}/{scope_name}", path(of)));
}

export function deleteBudget(of: Named): Promise<void> {
  return done(api.DELETE("/v1/budgets/{scope}/{scope_name}", path(of)));
}

/** A list with one more, or another in place of the same one. */
function withOne<Row extends Named>(rows: readonly Row[], row: Row): Row[] {
  const at = rows.findIndex((each) => same(each, row));
  return at < 0 ? [...rows, row] : rows.map((each, index) => (index === at ? row : each));
}

export function same(one: Named, other: Named): boolean {
  return one.scope === other.scope && one.name === other.name;
}

export const quotaSet = (quota: QuotaView) => (list: QuotaList | undefined) => list && { quotas: withOne(list.quotas, quota) };
export const budgetSet = (budget: BudgetView) => (list: BudgetList | undefined) => list && { budgets: withOne(list.budgets, budget) };
export const quotaGone = (of: Named) => (list: QuotaList | undefined) => list && { quotas: list.quotas.filter((each) => !same(each, of)) };
export const budgetGone = (of: Named) => (list: BudgetList | undefined) => list && { budgets: list.budgets.filter((each) => !same(each, of)) };
