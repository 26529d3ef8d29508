/** The entries of a folder as a table, with what stands in its place where there are none. */

import { Checkbox } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { readNextPage, retryPages } from "../api/nextPage";
import { asProblem } from "../api/problem";
import { text } from "../texts";
import { DataTable } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { count } from "../ui/format";
import { ProblemView } from "../ui/ProblemView";
import { fileColumns } from "./columns";
import { MOST_PAGES } from "./queries";
import classes from "./Files.module.css";
import type { Root } from "./paths";
import type { useFolder } from "./useFolder";

const route = getRouteApi("/c/$cluster/files");

interface Props {
  cluster: string;
  root: Root;
  path: string;
  folder: ReturnType<typeof useFolder>;
  writable: boolean;
  chosen: ReadonlySet<string>;
  choose: (chosen: ReadonlySet<string>) => void;
}

export function FileTable({ cluster, root, path, folder, writable, chosen, choose }: Props) {
  const { sort, descending } = route.useSearch();
  const navigate = route.useNavigate();
  const { pages, entries } = folder;
  const selectable = root === "bucket" && path !== "";
  const columns = useMemo(() => {
    const toggle = (of: string) => {
      const next = new Set(chosen);
      if (!next.delete(of)) next.add(of);
      choose(next);
    };
    return fileColumns(cluster, root, selectable ? { chosen, toggle } : null);
  }, [cluster, root, selectable, chosen, choose]);
  if (pages.isError && pages.data === undefined) {
    return asProblem(pages.error).status === 404 ? (
      <Empty title={text("files.not_found")}>{text("files.not_found_details")}</Empty>
    ) : (
      <ProblemView error={pages.error} retry={() => retryPages(pages)} />
    );
  }
  return (
    <>
      {pages.isError ? <ProblemView error={pages.error} retry={() => retryPages(pages)} /> : null}
      <DataTable
        label={text("files.list")}
        rows={entries}
        columns={columns}
        rowId={(entry) => entry.path}
        sort={sort === undefined ? null : { column: sort, descending: descending ?? false }}
        onSort={(next) =>
          void navigate({
            search: (before) => ({ ...before, sort: next?.column, descending: next?.descending || undefined }),
            replace: true,
          })
        }
        onEnd={() => readNextPage(pages)}
        empty={pages.isSuccess && !pages.hasNextPage ? <Nothing root={root} path={path} writable={writable} /> : null}
      />
      <div className={classes.footer}>
        {selectable && entries.length > 0 ? (
          <Checkbox
            me="md"
            label={text("files.select_all")}
            checked={entries.every((entry) => chosen.has(entry.path))}
            indeterminate={chosen.size > 0 && entries.some((entry) => !chosen.has(entry.path))}
            onChange={({ currentTarget }) => choose(new Set(currentTarget.checked ? entries.map((entry) => entry.path) : []))}
          />
        ) : null}
        {pages.data ? summary(folder) : null}
      </div>
    </>
  );
}

function summary({ pages, entries, unreadable }: ReturnType<typeof useFolder>): string {
  const shown = count(entries.length);
  const full = !pages.hasNextPage && pages.data?.pages.length === MOST_PAGES && pages.data.pages.at(-1)?.next !== null;
  const first = full
    ? text("files.too_many", { shown })
    : text(pages.hasNextPage ? "files.count_more" : "files.count", { count: entries.length, shown });
  return unreadable === 0 ? first : `${first}. ${text("files.unreadable", { count: unreadable })}`;
}

function Nothing({ root, path, writable }: { root: Root; path: string; writable: boolean }) {
  if (root === "bucket" && path === "") return <Empty title={text("files.no_bucket")}>{text("files.no_bucket_details")}</Empty>;
  return <Empty title={text("files.none")}>{text(writable ? "files.none_writable" : "files.none_readable")}</Empty>;
}
