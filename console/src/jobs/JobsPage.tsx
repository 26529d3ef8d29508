/** The list of jobs: filtered and sorted here, of all that were read, and kept right by events. */

import { useMediaQuery } from "@mantine/hooks";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useMemo } from "react";
import { PausedNote } from "../app/shell/PausedCluster";
import { text } from "../texts";
import { useAnnounced } from "../ui/announcements";
import { RowTable } from "../ui/tables/RowTable";
import { Empty } from "../ui/Empty";
import { count, date } from "../ui/format";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { SavedViews } from "../views/SavedViews";
import { SELECTION_COLUMN } from "./bulk/SelectionColumn";
import { BulkActionsButton } from "./bulk/BulkActionsButton";
import { SelectionContext, useRowSelection } from "./bulk/useRowSelection";
import { jobColumns, tableColumns, type JobColumn } from "./columns";
import { ColumnChoice, FilterBar, useTyped } from "./filters/FilterBar";
import { filtered, filtersOf, isFiltered, sinceItsDay, type Filters, type JobsSearch } from "./filters/filters";
import classes from "./jobs.module.css";
import { MOST_JOBS, type JobList } from "./list/list";
import { arranged, folded } from "./rows";
import { CostsContext, useListCosts } from "./list/useListCosts";
import { useJobs } from "./list/useJobs";

const route = getRouteApi("/c/$cluster/jobs");
const AllCounts = lazy(() => import("./filters/AllCounts").then(({ AllCounts: component }) => ({ default: component })));
const NONE: JobList["rows"] = [];

export function JobsPage() {
  const { cluster } = route.useParams();
  const search = route.useSearch();
  const change = useChange();
  const { query, missing, readOn, whole, since } = useJobs(cluster, search.since);
  const list = query.data;
  const jobs = list?.rows ?? NONE;
  const [typed, type] = useTyped(search.find ?? "", change);
  const filters = useFilters(search, typed);
  const toggle = useToggle(search.open, change);
  const columns = useMemo(() => jobColumns({ cluster, toggle }), [cluster, toggle]);
  const shown = useShown(columns, search.columns);
  const costs = useListCosts(cluster, { since, whole, wanted: whole && shown.includes("cost") });
  const matching = useMemo(() => filtered(jobs, filters), [jobs, filters]);
  const rows = useMemo(() => folded(matching, new Set(search.open), jobs), [matching, search.open, jobs]);
  const by = columns.find(({ id }) => id === search.sort)?.by;
  const descending = search.descending ?? false;
  const inOrder = useMemo(() => arranged(rows, by === undefined ? null : { value: by, descending }), [rows, by, descending]);
  const tableOf = useMemo(() => [SELECTION_COLUMN, ...tableColumns(columns)], [columns]);
  const tableShown = useMemo(() => [SELECTION_COLUMN.id, ...shown], [shown]);
  const rowSelection = useRowSelection(cluster, filters, matching);
  return (
    <Page
      title={text("app.page.jobs")}
      actions={
        <>
          <SavedViews page="jobs" />
          <ColumnChoice columns={columns} shown={shown} change={(to) => change({ columns: to })} />
        </>
      }
    >
      {query.isError ? <ProblemView error={query.error} retry={() => void query.refetch()} /> : null}
      {missing ? <ProblemView error={missing} title={text("jobs.missing")} retry={readOn} /> : null}
      {costs.error ? <ProblemView error={costs.error} title={text("jobs.cost.missing")} retry={costs.again} /> : null}
      <PausedNote cluster={cluster} />
      <FilterBar filters={filters} jobs={jobs} change={change} typed={typed} type={type} />
      <div className={classes.line}>
        <Sum list={list} matching={matching.length} whole={whole} since={since} filters={filters} />
        {list !== undefined && whole && isTruncated(list) ? (
          <Suspense fallback={null}>
            <AllCounts cluster={cluster} filters={filters} since={since} />
          </Suspense>
        ) : null}
        <BulkActionsButton cluster={cluster} filters={filters} jobs={matching} whole={whole} rowSelection={rowSelection} />
      </div>
      <CostsContext value={costs}>
        <SelectionContext value={rowSelection}>
          <RowTable
            label={text("app.page.jobs")}
            rows={inOrder}
            columns={tableOf}
            shown={tableShown}
            rowId={(row) => row.id}
            sort={search.sort === undefined || by === undefined ? null : { column: search.sort, descending }}
            onSort={(to) => change({ sort: to?.column, descending: to?.descending ? true : undefined })}
            empty={list === undefined ? null : <Nothing filtered={isFiltered(filters)} reading={!whole} />}
          />
        </SelectionContext>
      </CostsContext>
    </Page>
  );
}

/** The filters of the URL with what is typed now; the same ones while they mean the same. */
function useFilters(search: JobsSearch, typed: string): Filters {
  const key = JSON.stringify(filtersOf({ ...search, find: typed.trim() || undefined }));
  return useMemo(() => JSON.parse(key) as Filters, [key]);
}

type Change = (to: { [Key in keyof JobsSearch]?: JobsSearch[Key] | undefined }) => void;

function useChange(): Change {
  const navigate = route.useNavigate();
  return useCallback(
    (to) =>
      void navigate({
        search: (before) =>
          Object.fromEntries(Object.entries({ ...before, ...to }).filter(([, value]) => value !== undefined)) as JobsSearch,
        replace: true,
      }),
    [navigate],
  );
}

function useToggle(open: readonly string[] | undefined, change: Change): (array: string) => void {
  return useCallback(
    (array) => {
      const others = (open ?? []).filter((each) => each !== array);
      const next = others.length === (open ?? []).length ? [...others, array].slice(-50) : others;
      change({ open: next.length === 0 ? undefined : next });
    },
    [open, change],
  );
}

const WIDE = "(min-width: 1280px)";

function useShown(columns: readonly Pick<JobColumn, "id" | "usual">[], chosen: readonly string[] | undefined): string[] {
  const wide = useMediaQuery(WIDE, false, { getInitialValueInEffect: false });
  return useMemo(() => {
    const isUsual = ({ usual }: Pick<JobColumn, "usual">) => usual === true || (usual === "wide" && wide);
    return columns.filter((column) => (chosen === undefined ? isUsual(column) : column.id === "name" || chosen.includes(column.id))).map(({ id }) => id);
  }, [columns, chosen, wide]);
}

/** Whether there are more jobs than a page keeps; known once all pages were read. */
function isTruncated(list: JobList): boolean {
  return list.total > list.rows.length;
}

interface SumProps {
  list: JobList | undefined;
  matching: number;
  whole: boolean;
  since: Date;
  filters: Filters;
}

/** How many jobs are shown of how many, and whether some are not here. */
function Sum({ list, matching, whole, since, filters }: SumProps) {
  const ofDay = useMemo(() => sinceItsDay(list?.rows ?? NONE, filters), [list, filters]);
  const words = list === undefined ? text("ui.loading") : sumOf({ list, matching, whole, since }, ofDay);
  useAnnounced(words, filters);
  return list !== undefined && whole && isTruncated(list) ? <span role="note">{words}</span> : <span>{words}</span>;
}

function sumOf({ list, matching, whole, since }: Omit<SumProps, "filters"> & { list: JobList }, ofDay: ReturnType<typeof sinceItsDay>): string {
  const values = { shown: count(matching), total: count(list.total), kept: count(list.rows.length), since: date(since) };
  if (!whole) return text("jobs.sum_reading", values);
  if (isTruncated(list)) return text("jobs.sum_too_many", { ...values, most: count(MOST_JOBS) });
  if (ofDay !== null) return text("jobs.sum_of_day", { ...values, total: count(ofDay.total), since: ofDay.day, count: ofDay.total });
  return text("jobs.sum", { ...values, count: list.total });
}

function Nothing({ filtered: narrowed, reading }: { filtered: boolean; reading: boolean }) {
  if (reading) return <Empty title={text("ui.loading")} />;
  if (narrowed) return <Empty title={text("jobs.none_match")}>{text("jobs.none_match_details")}</Empty>;
  return <Empty title={text("jobs.none")}>{text("jobs.none_details")}</Empty>;
}
