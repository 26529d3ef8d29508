/** The workers and the decisions about them: now, over time, and why. */

import { Group, SegmentedControl, Text, Title } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useId } from "react";
import { readNextPage, retryPages } from "../api/nextPage";
import { useIsAdmin } from "../app/useIsAdmin";
import { useShapes } from "../app/useShapes";
import { text } from "../texts";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { DecisionDrawer } from "./DecisionDrawer";
import { DecisionsTable } from "./DecisionsTable";
import { FleetChart } from "./chart/FleetChart";
import { FleetFigures } from "./FleetFigures";
import { Health } from "./Health";
import { HoursSection } from "./hours/HoursSection";
import { RANGES, type Range } from "./queries";
import { ShapesTable } from "./ShapesTable";
import { UseSection } from "./UseSection";
import { useFleet } from "./useFleet";
import { WorkersTable } from "./WorkersTable";
import classes from "./fleet.module.css";

const route = getRouteApi("/c/$cluster/fleet");

export function FleetPage() {
  const { cluster } = route.useParams();
  const { range = "1h", moment } = route.useSearch();
  const navigate = route.useNavigate();
  const admin = useIsAdmin();
  const shapes = useShapes(cluster);
  const hint = useId();
  const { detail, fleet, workers, decisions } = useFleet(cluster, range);
  const open = useCallback((chosen: string) => void navigate({ search: (search) => ({ ...search, moment: chosen }) }), [navigate]);
  const { told } = decisions;
  const first = workers.data?.pages[0];
  return (
    <Page title={text("app.page.fleet")}>
      {detail.isError ? <ProblemView error={detail.error} retry={() => void detail.refetch()} /> : null}
      {detail.data ? <Health cluster={detail.data} /> : <div className={classes.health}>{"\u00a0"}</div>}
      <FleetFigures
        cluster={detail.data}
        workers={first}
        counts={fleet.data?.now}
        decision={decisions.pages.data === undefined ? undefined : (told[0] ?? null)}
        admin={admin}
      />
      <section className={classes.section} aria-label={text("fleet.chart.title")}>
        <Group justify="space-between" mb={6}>
          <Title order={2} fz="lg">
            {text("fleet.chart.title")}
          </Title>
          <SegmentedControl
            aria-label={text("fleet.range.label")}
            data={RANGES.map((value) => ({ value, label: text(`fleet.range.${value}`) }))}
            value={range}
            onChange={(value) => void navigate({ search: (search) => ({ ...search, range: value as Range }), replace: true })}
          />
        </Group>
        {fleet.isError ? <ProblemView error={fleet.error} retry={() => void fleet.refetch()} /> : <FleetChart fleet={fleet.data} shapes={shapes} range={range} open={open} hint={hint} />}
        <Text size="xs" c="dimmed">
          <span id={hint}>{text("fleet.chart.hint")}</span> {text("fleet.chart.boots")}{" "}
          <Link to="/c/$cluster/costs" params={{ cluster }} search={{ by: "shape" }}>
            {text("fleet.chart.boots_link")}
          </Link>
        </Text>
      </section>
      <section className={classes.section} aria-label={text("fleet.shapes.title")}>
        <Title order={2} fz="lg" mb={6}>
          {text("fleet.shapes.title")}
        </Title>
        {workers.isError ? (
          <ProblemView error={workers.error} retry={() => retryPages(workers)} />
        ) : (
          <ShapesTable cluster={detail.data} workers={first} counts={fleet.data?.now ?? (fleet.isError ? [] : undefined)} />
        )}
      </section>
      <section className={classes.section} aria-label={text("fleet.decisions.title")}>
        <Title order={2} fz="lg" mb={6}>
          {text("fleet.decisions.title")}
        </Title>
        {decisions.pages.isError ? <ProblemView error={decisions.pages.error} retry={() => retryPages(decisions.pages)} /> : null}
        <DecisionsTable
          decisions={told}
          read={decisions.pages.isSuccess && !decisions.pages.hasNextPage}
          admin={admin}
          open={open}
          onEnd={() => readNextPage(decisions.pages)}
        />
      </section>
      <section className={classes.section} aria-label={text("fleet.workers.title")}>
        <Title order={2} fz="lg" mb={6}>
          {text("fleet.workers.title")}
        </Title>
        <WorkersTable
          cluster={cluster}
          pages={workers.data?.pages}
          onEnd={() => readNextPage(workers)}
        />
      </section>
      <HoursSection cluster={cluster} />
      <UseSection cluster={cluster} />
      <DecisionDrawer
        cluster={cluster}
        detail={detail.data}
        admin={admin}
        moment={moment}
        close={() => void navigate({ search: ({ moment: _closed, ...search }) => search })}
      />
    </Page>
  );
}
