/** What jobs and workers cost, and what bounds it. */

import { Tabs, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { text } from "../texts";
import { exact, short } from "../ui/format";
import { Page } from "../ui/Page";
import { useNow } from "../ui/useNow";
import { SavedViews } from "../views/SavedViews";
import { ClustersTab } from "./ClustersTab";
import { CostsTab } from "./CostsTab";
import { LimitsTab } from "./limits/LimitsTab";
import { dayOf, preset, type Period } from "./period";
import { quotasQuery, summaryQuery, tenantSummaryQuery } from "./queries";
import type { CostsSearch } from "./routes";
import { RefreshButton } from "../ui/RefreshButton";

const route = getRouteApi("/c/$cluster/costs");
const TABS = ["costs", "limits", "clusters"] as const;

export function CostsPage() {
  const { cluster } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const [reading, setReading] = useState(false);
  const { tab = "costs" } = search;
  // The period is of days: it is another one only after midnight.
  const today = dayOf(useNow());
  const now = Date.parse(`${today}T12:00:00Z`);
  const usual = preset("month", now);
  const period: Period = { from: search.from ?? usual.from, until: search.until ?? usual.until };
  const change = (part: CostsSearch) => void navigate({ search: (before) => ({ ...before, ...part }), replace: true });
  const summary = useQuery({ ...summaryQuery(cluster), enabled: tab === "costs" });
  const all = useQuery({ ...tenantSummaryQuery(search.of ?? "cluster"), enabled: tab === "clusters" });
  const limits = useQuery({ ...quotasQuery, enabled: tab === "limits" });
  // Members are not told what admins set, so this tab says its age, too.
  const limitsAsOf = limits.data === undefined ? undefined : new Date(limits.dataUpdatedAt).toISOString();
  const asOf = { costs: summary.data?.as_of, limits: limitsAsOf, clusters: all.data?.as_of }[tab];

  async function refresh() {
    setReading(true);
    try {
      await Promise.all(READ_AGAIN.map((key) => queries.invalidateQueries({ queryKey: [key] })));
    } finally {
      setReading(false);
    }
  }

  return (
    <Page
      title={text("app.page.costs")}
      actions={
        <>
          {asOf === undefined ? null : (
            <Text size="sm" c="dimmed" title={exact(new Date(asOf))}>
              {text("money.as_of", { time: short(new Date(asOf)) })}
            </Text>
          )}
          <SavedViews page="costs" />
          <RefreshButton busy={reading} refresh={() => void refresh()}>
            {text("money.read_again")}
          </RefreshButton>
        </>
      }
    >
      <Tabs value={tab} onChange={(value) => change({ tab: TABS.find((each) => each === value) })} keepMounted={false} mb="xl">
        <Tabs.List aria-label={text("money.tab.label")} mb="sm">
          {TABS.map((each) => (
            <Tabs.Tab key={each} value={each}>
              {text(`money.tab.${each}`)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="costs">
          <CostsTab cluster={cluster} search={search} period={period} now={now} change={change} />
        </Tabs.Panel>
        <Tabs.Panel value="limits">
          <LimitsTab />
        </Tabs.Panel>
        <Tabs.Panel value="clusters">
          <ClustersTab search={search} change={change} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

const READ_AGAIN = ["costs", "cost-summary", "cost-summary-of-tenant", "quotas", "budgets"] as const;
