/** What the job would be, cost and leave, and the button that says what happens. */

import { Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { JobEstimate } from "../api/schema";
import { text } from "../texts";
import { Confirm } from "../ui/forms/Confirm";
import { UserText } from "../ui/UserText";
import { duration, exact, money } from "../ui/format";
import { Moment } from "../ui/Moment";
import { ProblemView } from "../ui/ProblemView";
import type { Finding } from "./script/checker";
import { Quotas } from "./Quotas";
import { countingQuotas, type Payer } from "./quotas";
import { quotasQuery } from "./queries";
import classes from "./SubmitPage.module.css";
import type { Estimated } from "./useEstimate";
import type { IdempotentSubmit } from "./useIdempotentSubmit";

interface Props<Body> {
  /** Null where nothing can be estimated. */
  estimated: Estimated | null;
  /** What is wrong at the lines of the script: said in words, too. */
  findings: readonly Finding[];
  mayWrite: boolean;
  /** Whose quotas count it. */
  payer: Payer;
  disabled: boolean;
  act: IdempotentSubmit<Body>;
  submit: () => void;
  /** In place of "Submit". */
  verb?: string;
}

export function SubmitBar<Body>({ estimated, findings, mayWrite, payer, disabled, act, submit, verb }: Props<Body>) {
  const read = useQuery(quotasQuery).data?.quotas;
  const estimate = estimated?.estimate ?? null;
  const quotas = read === undefined ? null : countingQuotas(read, payer, estimated?.current && estimate?.cost ? mostOf(estimate.cost) : undefined);
  const button = label(verb ?? text("submit.verb"), estimated?.current ? estimate : null);
  return (
    <section className={classes.summary} aria-label={text("submit.summary")}>
      {findings.length > 0 ? (
        <ul className={classes.notes}>
          {findings.slice(0, 20).map((each) => (
            <li key={`${each.line} ${each.message}`}>
              <UserText>{text(`submit.finding_${each.severity}`, { line: each.line, message: each.message })}</UserText>
            </li>
          ))}
        </ul>
      ) : null}
      {act.error === null ? null : <ProblemView error={act.error} title={text("submit.failed")} />}
      {act.error === null && estimated?.error && findings.every(({ severity }) => severity !== "error") ? (
        <ProblemView error={estimated.error} title={text("submit.refused")} />
      ) : null}
      <div className={classes.bar}>
        <Stack gap={4}>
          <Facts estimate={estimate} old={!(estimated?.current ?? false)} />
          {estimated === null || estimate === null ? null : (
            <Group gap="xs">
              <Text size="sm" c="dimmed">
                <UserText>{estimate.text}</UserText> {text("submit.as_of")} <Moment at={estimate.as_of} />
              </Text>
              <Button variant="subtle" disabled={!estimated.current} onClick={estimated.again}>
                {text("submit.again")}
              </Button>
            </Group>
          )}
          {quotas === null ? null : <Quotas quotas={quotas} />}
          {(estimate?.warnings ?? []).filter((each) => !each.startsWith("line ")).map((each) => (
            <Text size="sm" key={each}>
              <UserText>{each}</UserText>
            </Text>
          ))}
        </Stack>
        <Stack gap={4} align="end">
          {mayWrite ? null : <Text size="sm">{text("submit.needs_member")}</Text>}
          <Button
            size="sm"
            classNames={{ root: classes.submit ?? "", label: classes.words ?? "" }}
            onClick={submit}
            loading={act.pending}
            disabled={disabled || !mayWrite}
          >
            {button}
          </Button>
        </Stack>
      </div>
      <Confirm
        opened={act.price !== null}
        close={act.refuse}
        title={text("submit.confirm.title")}
        verb={text("submit.confirm.verb", { price: money(act.price ?? 0) })}
        act={act.confirm}
        dangerous={false}
      >
        <Text>{text("submit.confirm.text", { price: money(act.price ?? 0) })}</Text>
      </Confirm>
    </section>
  );
}

/** What a job would cost and when it would start. */
export function Facts({ estimate, old }: { estimate: JobEstimate | null; old: boolean }) {
  const starts = start(estimate);
  const unknown = text("submit.unknown");
  const cost = estimate?.cost ?? null;
  // The workers are those of all tasks, while the estimate has the hour of one: how many run at once is not known.
  const ofArray = (estimate?.tasks ?? 1) > 1;
  const workers = (estimate?.workers ?? []).map(({ kind, shape, count }) =>
    text(`submit.worker.${kind}`, { shape: shape ?? text("submit.other_shape"), number: count ?? "" }).trim(),
  );
  const facts: [string, string, (string | undefined)?][] = [
    [text("submit.fact.shape"), workers.length > 0 ? workers.join(", ") : unknown],
    [text(ofArray ? "submit.of_array.per_hour" : "submit.fact.per_hour"), cost === null ? unknown : money(Number(cost.per_hour))],
    [ofArray ? text("submit.of_array.at_most", { count: estimate?.tasks ?? 0 }) : text("submit.fact.at_most"), cost === null ? unknown : most(cost)],
    [text("submit.fact.start"), starts ?? unknown, estimate?.expected_start ? exact(new Date(estimate.expected_start)) : undefined],
  ];
  return (
    <dl className={classes.facts} data-old={old} aria-busy={old}>
      {facts.map(([name, value, title]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd title={title}>
            <UserText>{value}</UserText>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function most(cost: NonNullable<JobEstimate["cost"]>): string {
  const amount = mostOf(cost);
  return amount === null ? text("submit.no_limit") : money(amount);
}

/** The most that the job can cost, in USD; null without a limit. */
function mostOf({ at_most, total_at_most }: NonNullable<JobEstimate["cost"]>): number | null {
  const amount = total_at_most ?? at_most;
  return amount === null ? null : Number(amount);
}

/** When it starts, in words; null where nobody knows. */
function start(estimate: JobEstimate | null): string | null {
  if (estimate === null) return null;
  if (estimate.wait === "nothing") return text("submit.starts.now");
  if (estimate.expected_start === null) return text(`submit.starts.${estimate.wait}`);
  // As of the estimate: a job that is submitted later starts later.
  const seconds = (Date.parse(estimate.expected_start) - Date.parse(estimate.as_of)) / 1000;
  return text("submit.starts.in", { duration: duration(Math.max(1, Math.round(seconds))) });
}

function label(verb: string, estimate: JobEstimate | null): string {
  const starts = start(estimate);
  const cost = estimate?.cost ?? null;
  const amount = cost === null ? null : mostOf(cost);
  const price =
    cost === null
      ? null
      : amount === null
        ? text(estimate !== null && estimate.tasks > 1 ? "submit.of_array.button" : "submit.button.per_hour", { price: money(Number(cost.per_hour)) })
        : text("submit.button.price", { price: money(amount) });
  return [verb, price, starts].filter((each) => each !== null).join(" · ");
}
