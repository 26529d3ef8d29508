/** Leads to acts on the selected jobs or, where none is selected, on all that match, and says afterwards what was done. */

import { Button } from "@mantine/core";
import { lazy, Suspense, useMemo, useRef, useState } from "react";
import { text } from "../../texts";
import { announce, useAnnounced } from "../../ui/announcements";
import { count } from "../../ui/format";
import type { Filters } from "../filters/filters";
import type { JobList } from "../list/list";
import { selectedOf, isEmpty } from "./rowSelection";
import type { Action } from "./plan";
import type { SelectionControl } from "./useRowSelection";

const BulkActions = lazy(() => import("./BulkActions").then(({ BulkActions: component }) => ({ default: component })));

interface Props {
  cluster: string;
  filters: Filters;
  jobs: JobList["rows"];
  /** Whether all jobs were read, so that what matches is all there is. */
  whole: boolean;
  rowSelection: SelectionControl;
}

/** What was done, with the filters of then: of other jobs it says nothing. */
interface Done {
  filters: Filters;
  words: string;
}

export function BulkActionsButton({ cluster, filters, jobs: matching, whole, rowSelection: { selection, clear } }: Props) {
  const [wanted, setWanted] = useState(false);
  const [done, setDone] = useState<Done | null>(null);
  const said = useRef<string | null>(null);
  const single = selection !== "all" && !isEmpty(selection);
  const jobs = useMemo(() => (single ? selectedOf(selection, matching) : matching), [single, selection, matching]);
  useAnnounced(isEmpty(selection) ? "" : text("jobs.select.count", { count: jobs.length, shown: count(jobs.length) }), selection);
  function ended(act: Action, number: number) {
    said.current = text(`jobs.bulk.was_${act}`, { count: number, shown: count(number) });
    setDone({ filters, words: said.current });
  }
  function close() {
    setWanted(false);
    if (said.current === null) return;
    // The dialog has said it step by step; this is for the page, to which the reader comes back.
    announce(said.current);
    said.current = null;
    clear();
  }
  return (
    <>
      {/* It stays while no job matches any more: a cancelled job leaves a list of those that wait. */}
      {wanted ? (
        <Suspense fallback={null}>
          <BulkActions cluster={cluster} filters={single ? null : filters} jobs={jobs} done={ended} close={close} />
        </Suspense>
      ) : null}
      <span>{done?.filters === filters ? done.words : null}</span>
      {matching.length > 0 || single ? (
        <Button variant="default" onClick={() => setWanted(true)} disabled={jobs.length === 0 || !(whole || single)}>
          {text(single ? "jobs.bulk.open_selected" : "jobs.bulk.open", { count: jobs.length, shown: count(jobs.length) })}
        </Button>
      ) : null}
      {isEmpty(selection) ? null : (
        <Button variant="subtle" onClick={clear}>
          {text("jobs.select.clear")}
        </Button>
      )}
    </>
  );
}
