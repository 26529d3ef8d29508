/** Leads to acts on all jobs that match, which are loaded when they are wanted, and says afterwards what was done. */

import { Button } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { text } from "../../texts";
import { count } from "../../ui/format";
import type { Filters } from "../filters/filters";
import type { JobList } from "../list/list";
import type { Action } from "./plan";

const BulkActions = lazy(() => import("./BulkActions").then(({ BulkActions: component }) => ({ default: component })));

interface Props {
  cluster: string;
  filters: Filters;
  jobs: JobList["rows"];
  /** Whether all jobs were read, so that what matches is all there is. */
  whole: boolean;
}

/** What was done, with the filters of then: of other jobs it says nothing. */
interface Done {
  filters: Filters;
  act: Action;
  jobs: number;
}

export function Selection(props: Props) {
  const { jobs, filters, whole } = props;
  const [wanted, setWanted] = useState(false);
  const [done, setDone] = useState<Done | null>(null);
  return (
    <>
      {/* It stays while no job matches any more: a cancelled job leaves a list of those that wait. */}
      {wanted ? (
        <Suspense fallback={null}>
          <BulkActions {...props} done={(act, number) => setDone({ filters, act, jobs: number })} close={() => setWanted(false)} />
        </Suspense>
      ) : jobs.length > 0 ? (
        <Button variant="default" onClick={() => setWanted(true)} disabled={!whole}>
          {text("jobs.bulk.open", { count: jobs.length, shown: count(jobs.length) })}
        </Button>
      ) : null}
      <span role="status">
        {done?.filters === filters ? text(`jobs.bulk.was_${done.act}`, { count: done.jobs, shown: count(done.jobs) }) : null}
      </span>
    </>
  );
}
