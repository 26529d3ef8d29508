/** Acts on all jobs that match the filters, or on those that are selected: says what will happen to each, does it once, and tells each outcome. */

import { Button, Group, Progress, SegmentedControl, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { profileQuery } from "../../api/queries";
import type { Job, JobFilter } from "../../api/schema";
import { OtherOwners } from "../../app/OtherOwners";
import { text } from "../../texts";
import { count } from "../../ui/format";
import { ProblemView } from "../../ui/ProblemView";
import { cancelJob, holdJob, releaseJob } from "../actions";
import { apiFilter, type Filters } from "../filters/filters";
import { cancelled, cancelDryRun } from "./cancelling";
import { MOST_SELECTED } from "./rowSelection";
import { BulkEntryList } from "./BulkEntryList";
import { applies, planned, runEach, tally, type Action, type BulkEntry } from "./plan";
import { Dialog } from "../../ui/Dialog";

interface Props {
  cluster: string;
  /** What means these jobs; null where they were selected one by one. */
  filters: Filters | null;
  jobs: readonly Job[];
  /** Called with the number of jobs that were changed, once all were tried. */
  done: (act: Action, jobs: number) => void;
  close: () => void;
}

const ACTS: readonly Action[] = ["cancel", "hold", "release"];

export function BulkActions({ cluster, filters, jobs: current, done, close }: Props) {
  // The jobs as they were when the person asked: what is confirmed is what was shown.
  const [jobs] = useState(current);
  const [act, setAct] = useState<Action>("cancel");
  const [sofar, setSofar] = useState<BulkEntry[] | null>(null);
  const ended = useRef<AbortController | null>(null);
  const me = useQuery(profileQuery).data?.name ?? "";
  const filter = useMemo(
    () => (act === "cancel" && filters !== null ? apiFilter(filters, new Set(jobs.map(({ user }) => user)), me) : null),
    [act, filters, jobs, me],
  );
  const plan = usePlan(cluster, act, filter, jobs);
  const [key] = useState(() => crypto.randomUUID());
  const run = useMutation({
    mutationFn: async () => {
      const signal = (ended.current = new AbortController()).signal;
      if (filter !== null) return cancelled({ cluster, filter, total: plan.total, key, progress: setSofar, signal });
      return runEach({ entries: plan.entries, act: (job) => single(act, { cluster, job }), progress: setSofar, signal });
    },
    onSuccess: (all) => {
      setSofar(all);
      done(act, tally(all).done);
    },
  });
  useEffect(() => () => ended.current?.abort(), []);
  const finished = run.isSuccess || run.isError;
  const leave = useRef<HTMLButtonElement>(null);
  // The button that was pressed is gone then.
  useEffect(() => {
    if (finished) leave.current?.focus();
  }, [finished]);
  const owners = useMemo(() => jobs.filter((job) => applies(act, job)).map(({ user }) => user), [act, jobs]);
  const entries = sofar ?? plan.entries;
  const counts = tally(entries);
  const willCount = filter === null ? tally(plan.entries).will : plan.total;
  const tooMany = filters === null && willCount > MOST_SELECTED;
  return (
    <Dialog close={close} title={text("jobs.bulk.title", { count: jobs.length, shown: count(jobs.length) })} closeOnClickOutside={!run.isPending}>
      <Stack gap="sm">
        <SegmentedControl
          aria-label={text("jobs.bulk.act")}
          disabled={run.isPending || finished}
          value={act}
          onChange={(chosen) => setAct(chosen as Action)}
          data={ACTS.map((value) => ({ value, label: text(`jobs.bulk.${value}`) }))}
        />
        {plan.error ? <ProblemView error={plan.error} /> : null}
        {run.isError ? <ProblemView error={run.error} /> : null}
        <Text size="sm" aria-live="polite">
          {tooMany
            ? text("jobs.bulk.too_many", { shown: count(willCount), most: count(MOST_SELECTED) })
            : sofar === null
            ? planText(act, willCount, filter === null ? counts.skipped : jobs.length - Math.min(jobs.length, plan.total))
            : text("jobs.bulk.progress", { done: count(counts.done), failed: count(counts.failed), left: count(Math.max(0, willCount - counts.done - counts.failed)) })}
        </Text>
        <OtherOwners owners={owners} several />
        {sofar === null ? null : <Progress value={willCount === 0 ? 100 : ((counts.done + counts.failed) / willCount) * 100} aria-label={text("jobs.bulk.done_of")} />}
        <BulkEntryList entries={entries} act={act} total={filter === null ? entries.length : Math.max(entries.length, plan.total)} />
        <Group justify="flex-end" gap="xs">
          <Button ref={leave} variant="default" onClick={run.isPending ? () => ended.current?.abort() : close}>
            {run.isPending ? text("jobs.bulk.stop") : finished ? text("ui.close") : text("ui.keep")}
          </Button>
          {finished ? null : (
            <Button
              {...(act === "cancel" ? { color: "red.8" } : {})}
              loading={run.isPending}
              disabled={willCount === 0 || tooMany || plan.pending}
              onClick={() => run.mutate()}
            >
              {text(`jobs.bulk.verb_${act}`, { count: willCount, shown: count(willCount) })}
            </Button>
          )}
        </Group>
      </Stack>
    </Dialog>
  );
}

/** How many jobs will change, and how many will not and why. */
function planText(act: Action, will: number, skipped: number): string {
  const change = text(`jobs.bulk.plan_${act}`, { count: will, shown: count(will) });
  return skipped === 0 ? change : `${change} ${text(`jobs.bulk.skipped_${act}`, { count: skipped, shown: count(skipped) })}`;
}

interface Plan {
  entries: BulkEntry[];
  total: number;
  pending: boolean;
  error: Error | null;
}

/** What will happen: the API says so where its filter means the same jobs; else each job's state does. */
function usePlan(cluster: string, act: Action, filter: JobFilter | null, jobs: readonly Job[]): Plan {
  const dryRun = useQuery({
    queryKey: ["dryRun", cluster, filter],
    queryFn: () => cancelDryRun(cluster, filter ?? {}),
    enabled: filter !== null,
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const local = useMemo(() => (filter === null ? planned(act, jobs) : []), [act, filter, jobs]);
  if (filter === null) return { entries: local, total: local.length, pending: false, error: null };
  return { entries: dryRun.data?.entries ?? [], total: dryRun.data?.total ?? 0, pending: dryRun.isPending, error: dryRun.error };
}

function single(act: Action, target: { cluster: string; job: string }): Promise<void> {
  if (act === "cancel") return cancelJob(target);
  return act === "hold" ? holdJob(target, crypto.randomUUID()) : releaseJob(target, crypto.randomUUID());
}
