/** What things cost, in the same columns whatever they are, with the API's sums below and exports of the same query. */

import { Group, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { readNextPage, retryPages } from "../api/nextPage";
import type { CostReport } from "../api/schema";
import { text } from "../texts";
import { DataTable, type Sort } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { count } from "../ui/format";
import { ProblemView } from "../ui/ProblemView";
import { TableBox } from "../ui/tables/TableBox";
import { bare } from "./amounts";
import type { By } from "./byDay";
import { costColumns, rowId } from "./costColumns";
import { inJobOrder } from "./jobOrder";
import classes from "./money.module.css";
import type { Period } from "./period";
import { costsQuery, exportAddress, MOST_PAGES } from "./queries";

interface Props {
  cluster: string;
  period: Period;
  by: By;
  sort: Sort | null;
  onSort: (sort: Sort | null) => void;
}

export function CostsTable({ cluster, period, by, sort, onSort }: Props) {
  const costs = useInfiniteQuery(costsQuery(cluster, period, [by]));
  const columns = useMemo(() => costColumns(cluster, by), [cluster, by]);
  const pages = costs.data?.pages;
  const rows = useMemo(() => {
    const all = pages?.flatMap((page) => page.rows) ?? [];
    return by === "job" ? inJobOrder(all) : all;
  }, [pages, by]);
  const first = pages?.[0];
  const cut = pages !== undefined && pages.length === MOST_PAGES && pages.at(-1)?.cursor !== null;
  return (
    <>
      {costs.isError ? <ProblemView error={costs.error} retry={() => retryPages(costs)} /> : null}
      <TableBox rows={rows.length}>
        <DataTable
          label={text(`money.table.title.${by}`)}
          rows={rows}
          columns={columns}
          rowId={(row) => rowId(row, by)}
          sort={sort}
          onSort={onSort}
          onEnd={() => readNextPage(costs)}
          empty={costs.isSuccess && !costs.hasNextPage ? <Empty title={text("money.chart.none")}>{text("money.chart.none_details")}</Empty> : null}
          footer={first === undefined ? undefined : <Sums report={first} />}
        />
      </TableBox>
      {cut ? (
        <Text size="sm" c="dimmed">
          {text("money.table.cut", { rows: count(rows.length) })}
        </Text>
      ) : null}
      {first?.unknown ? <Text size="sm">{text("money.unknown_part")}</Text> : null}
      <Group gap="xs" mt={6}>
        <Text size="sm">{text("money.table.export")}</Text>
        <a href={exportAddress(cluster, period, by, "csv")} download>
          {text("money.table.csv")}
        </a>
        <a href={exportAddress(cluster, period, by, "focus")} download>
          {text("money.table.focus")}
        </a>
        <Text size="sm" c="dimmed">
          ({text("money.table.focus_note")})
        </Text>
      </Group>
      <Text size="xs" c="dimmed">
        {text("money.table.hours_note")}
      </Text>
    </>
  );
}

/** The sums of all rows, as the API told them. */
function Sums({ report }: { report: CostReport }) {
  return (
    <dl className={classes.sums}>
      {(["shares", "overhead", "bill"] as const).map((each) => (
        <div key={each}>
          <dt>{text(`money.table.${each}`)}</dt>
          <dd>
            {bare(report[each])} {report[each].currency}
          </dd>
        </div>
      ))}
    </dl>
  );
}
