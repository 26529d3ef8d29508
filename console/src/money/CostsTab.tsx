/** The costs of a cluster: now, by day, and by what they are for. */

import { Group, Select, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { text } from "../texts";
import { ProblemView } from "../ui/ProblemView";
import type { By } from "./byDay";
import { CostsChart } from "./CostsChart";
import { CostsTable } from "./CostsTable";
import classes from "./money.module.css";
import type { Period } from "./period";
import { PeriodPicker } from "./PeriodPicker";
import { summaryQuery } from "./queries";
import type { CostsSearch } from "./routes";
import { SummaryFigures } from "./SummaryFigures";

const ALL_BY: readonly By[] = ["user", "account", "template", "job", "day", "shape", "worker"];

interface Props {
  cluster: string;
  search: CostsSearch;
  period: Period;
  now: number;
  change: (part: CostsSearch) => void;
}

export function CostsTab({ cluster, search, period, now, change }: Props) {
  const { by = "user", sort, descending = false } = search;
  const summary = useQuery(summaryQuery(cluster));
  const own = summary.data?.rows.every(({ purpose }) => purpose === "job") ?? false;
  return (
    <>
      {summary.isError ? <ProblemView error={summary.error} retry={() => void summary.refetch()} /> : <SummaryFigures summary={summary.data} own={own} now={now} />}
      <Group mb="sm" align="end" justify="space-between">
        <PeriodPicker period={period} now={now} change={(chosen) => change(chosen)} />
        <Select
          label={text("money.by.label")}
          data={ALL_BY.map((value) => ({ value, label: text(`money.by.${value}`) }))}
          value={by}
          onChange={(value) => change({ by: ALL_BY.find((each) => each === value) })}
          w={160}
        />
      </Group>
      <section className={classes.section} aria-label={text("money.chart.title")}>
        <Title order={2} fz="lg" mb={6}>
          {text("money.chart.title")}
        </Title>
        <CostsChart cluster={cluster} period={period} by={by} />
      </section>
      <section className={classes.section} aria-label={text(`money.table.title.${by}`)}>
        <Title order={2} fz="lg" mb={6}>
          {text(`money.table.title.${by}`)}
        </Title>
        <CostsTable
          cluster={cluster}
          period={period}
          by={by}
          sort={sort === undefined ? null : { column: sort, descending }}
          onSort={(chosen) => change({ sort: SORTS.find((each) => each === chosen?.column), descending: chosen?.descending || undefined })}
        />
      </section>
    </>
  );
}

const SORTS = ["what", "cost", "hours"] as const;
