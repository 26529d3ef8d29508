/** What runs, waits and costs now, and what needs the person. */

import { Group, SimpleGrid, Stack, Text, Title, VisuallyHidden } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, type ReactNode } from "react";
import { clusterQuery, profileQuery, refetchQuery } from "../api/queries";
import type { Money } from "../api/schema";
import { includes } from "../app/permissions";
import { MOST_JOBS, type JobList } from "../jobs/list/list";
import { useJobs } from "../jobs/list/useJobs";
import { useLiveRefetch } from "../live/useLive";
import { budgetsQuery, quotasQuery } from "../money/queries";
import { text } from "../texts";
import { money } from "../ui/format";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import type { StateGroup } from "../ui/jobStates";
import { useMinute } from "../ui/useNow";
import { counted, figure } from "./counts";
import classes from "./HomePage.module.css";
import { NeedsList } from "./NeedsList";
import { NewestJobs } from "./NewestJobs";
import { JOB_ENDS } from "../live/event";
import { needs } from "./needs";

const route = getRouteApi("/c/$cluster/");
const RUNNING: StateGroup[] = ["starting", "running"];
const WAITING: StateGroup[] = ["waiting"];
const ENDED: StateGroup[] = ["done", "failed", "cancelled"];

export function HomePage() {
  const { cluster } = route.useParams();
  const profile = useQuery(profileQuery);
  const { query: jobs, whole, missing, readOn } = useJobs(cluster);
  const detail = useQuery(clusterQuery(cluster));
  const quotas = useQuery(quotasQuery);
  const budgets = useQuery(budgetsQuery);
  useLiveRefetch(["cluster."], () => refetchQuery(detail));
  useLiveRefetch(["quota.", ...JOB_ENDS], () => refetchQuery(quotas));
  useLiveRefetch(["budget."], () => refetchQuery(budgets));
  useLiveRefetch(["job.running", ...JOB_ENDS], () => refetchQuery(profile));
  const minute = useMinute();
  const user = profile.data?.name ?? "";
  const admin = profile.data !== undefined && includes(profile.data.role, "admin");
  const found = useMemo(
    () =>
      needs({
        user,
        admin,
        jobs: jobs.data?.rows ?? [],
        cluster: detail.data,
        quotas: quotas.data?.quotas ?? [],
        budgets: budgets.data?.budgets ?? [],
        now: minute,
      }),
    [user, admin, jobs.data, detail.data, quotas.data, budgets.data, minute],
  );
  const figures = useFigures(jobs.data, whole, minute);
  const unread = missing !== null || jobs.isError ? text("home.unknown") : null;
  const complete = whole && !detail.isPending && !quotas.isPending && !budgets.isPending;
  const costs = profile.data?.costs;
  return (
    <Page title={text("app.page.home")}>
      {jobs.isError ? <ProblemView error={jobs.error} retry={() => void jobs.refetch()} /> : null}
      {missing ? <ProblemView error={missing} title={text("jobs.missing")} retry={readOn} /> : null}
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="md" mb="lg" component="dl" className={classes.figures}>
        <JobsFigure label={text(admin ? "home.running_all" : "home.running")} cluster={cluster} states={RUNNING} number={figures.running} unread={unread} />
        <JobsFigure label={text(admin ? "home.waiting_all" : "home.waiting")} cluster={cluster} states={WAITING} number={figures.waiting} unread={unread} />
        <JobsFigure label={text(admin ? "home.ended_today_all" : "home.ended_today")} cluster={cluster} states={ENDED} number={figures.ended} unread={unread} />
        <Figure label={text("home.burn_rate")}>{profile.data ? amount(costs?.burn_rate_per_hour) : null}</Figure>
        <Figure label={text("home.month")}>{profile.data ? amount(costs?.month_to_date) : null}</Figure>
        <Figure label={text("home.forecast")}>{profile.data ? amount(costs?.forecast) : null}</Figure>
      </SimpleGrid>
      {costs?.stale ? (
        <Text size="sm" c="dimmed" mb="md">
          {text("home.stale")}
        </Text>
      ) : null}
      <Stack gap="xs" mb="lg">
        <Title order={2} fz="lg">
          {text("home.needs_you")}
        </Title>
        <NeedsList cluster={cluster} needs={found} none={text(complete ? "home.nothing_needed" : missing ? "jobs.missing" : "ui.loading")} />
      </Stack>
      <Group justify="space-between" mb="xs">
        <Title order={2} fz="lg">
          {text("home.recent")}
        </Title>
        <Link to="/c/$cluster/jobs" params={{ cluster }}>
          {text("home.all_jobs")}
        </Link>
      </Group>
      <NewestJobs cluster={cluster} user={user} jobs={jobs.data?.rows} whole={whole} />
    </Page>
  );
}

/** The counts of jobs as they are shown, as lower bounds where not all jobs are here. */
function useFigures(list: JobList | undefined, whole: boolean, now: number) {
  return useMemo(() => {
    const { running, waiting, ended } = counted(list?.rows ?? [], now);
    const full = list !== undefined && list.rows.length >= MOST_JOBS;
    // What Slurm remembers has all jobs that have not ended; the accounting is read after it.
    const active = list !== undefined && list.cursor === null && !full;
    return { running: figure(running, active), waiting: figure(waiting, active), ended: figure(ended, whole && !full) };
  }, [list, whole, now]);
}

function amount(given: Money | null | undefined): string {
  return given === null || given === undefined ? text("home.unknown") : money(Number(given.amount), given.currency);
}

interface JobsFigureProps {
  label: string;
  cluster: string;
  /** The states of these jobs. */
  states: StateGroup[];
  number: string | null;
  /** What is shown where the number cannot be known. */
  unread: string | null;
}

/** A number of jobs, which leads to them. */
function JobsFigure({ label, cluster, states, number, unread }: JobsFigureProps) {
  if (number === null) return <Figure label={label}>{unread}</Figure>;
  return (
    <Figure label={label}>
      <Link to="/c/$cluster/jobs" params={{ cluster }} search={{ states }} aria-label={`${label}: ${number}`}>
        {number}
      </Link>
    </Figure>
  );
}

/** A figure with its name. Until it is known its place is kept. */
function Figure({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <dt className={classes.label}>{label}</dt>
      <dd className={classes.value}>
        {children ?? (
          <span className={classes.skeleton}>
            <VisuallyHidden>{text("ui.loading")}</VisuallyHidden>
          </span>
        )}
      </dd>
    </div>
  );
}
