/** What runs, waits and costs now, and what needs the person. */

import { Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, type ReactNode } from "react";
import { api, body } from "../api/client";
import { clusterQuery, profileQuery } from "../api/queries";
import type { Money } from "../api/schema";
import { useJobs } from "../jobs/useJobs";
import { useReadAgain } from "../live/useLive";
import { text } from "../texts";
import { count, money } from "../ui/format";
import { hasEnded, stateGroup } from "../ui/jobStates";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { useNow } from "../ui/useNow";
import classes from "./HomePage.module.css";
import { NeedsList } from "./NeedsList";
import { NewestJobs } from "./NewestJobs";
import { needs } from "./needs";

const route = getRouteApi("/c/$cluster/");
const DAY_MS = 86_400_000;
/** Ages on this page are right to a minute. */
const MINUTE_MS = 60_000;

export function HomePage() {
  const { cluster } = route.useParams();
  const profile = useQuery(profileQuery);
  const { query: jobs } = useJobs(cluster);
  const detail = useQuery(clusterQuery(cluster));
  const quotas = useQuery({
    queryKey: ["quotas"],
    queryFn: ({ signal }) => body(api.GET("/v1/quotas", { signal })),
  });
  useReadAgain(["cluster."], () => void detail.refetch());
  useReadAgain(["quota.", "job.completed", "job.failed"], () => void quotas.refetch());
  useReadAgain(["job.running", "job.completed", "job.failed", "job.cancelled", "job.timeout"], () => void profile.refetch());
  const minute = Math.floor(useNow() / MINUTE_MS) * MINUTE_MS;
  const user = profile.data?.name ?? "";
  const found = useMemo(
    () =>
      needs({
        user,
        jobs: jobs.data?.rows ?? [],
        cluster: detail.data,
        quotas: quotas.data?.quotas ?? [],
        now: minute,
      }),
    [user, jobs.data, detail.data, quotas.data, minute],
  );
  const counts = useMemo(() => counted(jobs.data?.rows ?? [], minute), [jobs.data, minute]);
  const costs = profile.data?.costs;
  return (
    <Page title={text("app.page.home")}>
      {jobs.isError ? <ProblemView error={jobs.error} retry={() => void jobs.refetch()} /> : null}
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="md" mb="lg" component="dl" className={classes.figures}>
        <Figure label={text("home.running")}>{jobs.data ? <JobsLink cluster={cluster}>{count(counts.running)}</JobsLink> : null}</Figure>
        <Figure label={text("home.waiting")}>{jobs.data ? <JobsLink cluster={cluster}>{count(counts.waiting)}</JobsLink> : null}</Figure>
        <Figure label={text("home.ended_today")}>{jobs.data ? <JobsLink cluster={cluster}>{count(counts.ended)}</JobsLink> : null}</Figure>
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
        <NeedsList cluster={cluster} needs={found} />
      </Stack>
      <Group justify="space-between" mb="xs">
        <Title order={2} fz="lg">
          {text("home.recent")}
        </Title>
        <Link to="/c/$cluster/jobs" params={{ cluster }}>
          {text("home.all_jobs")}
        </Link>
      </Group>
      <NewestJobs cluster={cluster} user={user} jobs={jobs.data?.rows} />
    </Page>
  );
}

function counted(jobs: Iterable<{ state: string; ended_at?: string | null }>, now: number) {
  const counts = { running: 0, waiting: 0, ended: 0 };
  for (const { state, ended_at } of jobs) {
    if (hasEnded(state)) {
      if (ended_at && now - Date.parse(ended_at) < DAY_MS) counts.ended += 1;
    } else if (stateGroup(state) === "waiting") counts.waiting += 1;
    else counts.running += 1;
  }
  return counts;
}

function amount(given: Money | null | undefined): string {
  return given === null || given === undefined ? text("home.unknown") : money(Number(given.amount), given.currency);
}

function JobsLink({ cluster, children }: { cluster: string; children: ReactNode }) {
  return (
    <Link to="/c/$cluster/jobs" params={{ cluster }}>
      {children}
    </Link>
  );
}

/** A figure with its name. Until it is known its place is kept. */
function Figure({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <dt className={classes.label}>{label}</dt>
      <dd className={classes.value}>{children ?? <span className={classes.skeleton} aria-label={text("ui.loading")} />}</dd>
    </div>
  );
}
