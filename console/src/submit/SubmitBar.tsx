/** What the job would be, cost and leave, and the button that says what happens. */

import { Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { JobEstimate } from "../api/schema";
import { ResumeHint } from "../app/shell/PausedCluster";
import { text } from "../texts";
import { Confirm } from "../ui/forms/Confirm";
import { UserText } from "../ui/UserText";
import { money } from "../ui/format";
import { Moment } from "../ui/Moment";
import { ProblemView } from "../ui/ProblemView";
import { RefreshButton } from "../ui/RefreshButton";
import { outlookOf, type Outlook } from "./outlook";
import type { Finding } from "./script/checker";
import { Quotas } from "./Quotas";
import { countingQuotas, type Payer } from "./quotas";
import { quotasQuery } from "./queries";
import classes from "./SubmitPage.module.css";
import type { StepsEstimate } from "./template/stepEstimates";
import type { Estimated } from "./useEstimate";
import type { IdempotentSubmit } from "./useIdempotentSubmit";

interface Props<Body> {
  cluster: string;
  /** Null where nothing can be estimated. */
  estimated: Estimated<JobEstimate | StepsEstimate> | null;
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

export function SubmitBar<Body>({ cluster, estimated, findings, mayWrite, payer, disabled, act, submit, verb }: Props<Body>) {
  const read = useQuery(quotasQuery).data?.quotas;
  const outlook = outlookOf(estimated?.estimate ?? null);
  const current = estimated?.current ?? false;
  const quotas = read === undefined ? null : countingQuotas(read, payer, current ? outlook.atMost : undefined);
  const button = [verb ?? text("submit.verb"), ...(current ? outlook.promises : [])].join(" · ");
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
          <Facts outlook={outlook} old={!current} />
          {estimated === null || outlook.said === null ? null : (
            <Group gap="xs">
              <Text size="sm" c="dimmed">
                <UserText>{outlook.said.text}</UserText> {outlook.said.paused ? <ResumeHint cluster={cluster} /> : null}{" "}
                {outlook.said.asOf === null ? null : (
                  <>
                    {text("submit.as_of")} <Moment at={outlook.said.asOf} />
                  </>
                )}
              </Text>
              <RefreshButton variant="subtle" busy={!current} refresh={estimated.again}>
                {text("submit.again")}
              </RefreshButton>
            </Group>
          )}
          {quotas === null ? null : <Quotas quotas={quotas} />}
          {outlook.warnings.filter((each) => !each.startsWith("line ")).map((each) => (
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

/** What a submit would cost and when it would start. */
export function Facts({ outlook, old }: { outlook: Outlook; old: boolean }) {
  return (
    <dl className={classes.facts} data-old={old} aria-busy={old}>
      {outlook.facts.map(({ name, value, title }) => (
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
