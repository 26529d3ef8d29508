/** A script beside its form, both of the same text, with what the job would cost and when it would start. */

import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useDeferredValue, useEffect, useMemo } from "react";
import { asProblem } from "../api/problem";
import type { Submission } from "../api/schema";
import { scriptQuery } from "../jobs/queries";
import { text } from "../texts";
import { CodeEditor } from "../ui/editor/CodeEditor";
import { Confirm } from "../ui/forms/Confirm";
import { useDraft } from "../ui/forms/drafts";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { check, fromService } from "./script/checker";
import { Draft, firstDraft, keptOf, rerunOf, submission, variables, withFile, wouldReplace } from "./draft";
import { readForm, withField } from "./script/fields";
import { JobForm } from "./JobForm";
import { OnlyTask } from "./OnlyTask";
import { submitJob } from "./queries";
import { SubmitBar } from "./SubmitBar";
import classes from "./SubmitPage.module.css";
import { useEstimate } from "./useEstimate";
import { useIdempotentSubmit } from "./useIdempotentSubmit";

export interface Writer {
  id: string;
  /** The user's name in Slurm. */
  user: string;
  /** Whether the person's role may submit. */
  mayWrite: boolean;
}

interface Props {
  cluster: string;
  person: Writer;
  /** A file of the bucket that the job gets, whatever is written of it already. */
  file: string | null;
  /** Called when the draft has the file. */
  fileTaken: () => void;
  /** A job whose script takes the place of what is written. */
  rerun: string | null;
  /** Called when the draft has the script. */
  rerunTaken: () => void;
}

export function ScriptSubmit({ cluster, person, file, fileTaken, rerun, rerunTaken }: Props) {
  const navigate = useNavigate();
  const draft = useDraft({ person: person.id, cluster, name: "submit" }, Draft, firstDraft, keptOf);
  const { set } = draft;
  useEffect(() => {
    if (file === null) return;
    set((before) => withFile(before, file));
    fileTaken();
  }, [file, set, fileTaken]);
  const old = useQuery({ ...scriptQuery(cluster, rerun ?? ""), enabled: rerun !== null });
  const script = rerun === null ? undefined : old.data?.script;
  const next = useMemo(() => (script === undefined ? null : rerunOf(script, rerun ?? "")), [script, rerun]);
  const asks = next !== null && wouldReplace(draft.value, next.script);
  const replace = useCallback(() => {
    if (next === null) return;
    set(() => next);
    rerunTaken();
  }, [next, set, rerunTaken]);
  useEffect(() => {
    if (!asks) replace();
  }, [asks, replace]);
  const value = useDeferredValue(draft.value);
  const found = useMemo(() => check(value.script), [value.script]);
  const environment = useMemo(() => variables(value.environment), [value.environment]);
  const wrong = found.some(({ severity }) => severity === "error") || environment.problem !== null;
  const body = useMemo<Submission | null>(() => (wrong || !person.mayWrite ? null : submission(value)), [wrong, person.mayWrite, value]);
  const estimated = useEstimate(cluster, body);
  const findings = useMemo(() => {
    const refused = estimated.error === null ? [] : fromService(asProblem(estimated.error).detail, "error");
    const warned = (estimated.estimate?.warnings ?? []).flatMap((each) => fromService(each, "warning"));
    const known = new Set(found.map(({ line, field }) => `${line} ${field}`));
    // What the text alone has told already is not said twice.
    return [...found, ...(body === null ? [] : refused), ...(body === null ? [] : warned).filter(({ line, field }) => !known.has(`${line} ${field}`))];
  }, [found, estimated.error, estimated.estimate, body]);
  const payer = { user: person.user, account: readForm(value.script).account.value || null };
  const act = useIdempotentSubmit<Submission, { job_id: string }>({
    send: (wanted, confirmed, key) =>
      submitJob(cluster, confirmed === null ? wanted : { ...wanted, job: { ...wanted.job, confirmed_usd_per_hour: confirmed } }, key),
    done: ({ job_id }) => {
      draft.forget();
      void navigate({ to: "/c/$cluster/jobs/$job", params: { cluster, job: job_id } });
    },
  });
  return (
    <Page
      title={text("app.page.submit")}
      actions={
        <>
          <Button variant="default" onClick={() => draft.set(firstDraft)}>
            {text("submit.start_over")}
          </Button>
          <Link to="/c/$cluster/templates" params={{ cluster }} search={{}}>
            {text("submit.from_template")}
          </Link>
        </>
      }
    >
      {rerun !== null && old.isError ? (
        <ProblemView error={old.error} title={text("submit.no_script", { number: rerun })} retry={() => void old.refetch()} />
      ) : null}
      <OnlyTask draft={draft.value} />
      <div className={classes.sides}>
        <div className={classes.script}>
          <CodeEditor
            language="shell"
            label={text("submit.script")}
            value={draft.value.script}
            notes={findings}
            onChange={(script) => draft.set((before) => (before.script === script ? before : { ...before, script }))}
          />
        </div>
        <div className={classes.form}>
          <JobForm
            cluster={cluster}
            draft={draft.value}
            findings={findings}
            problems={estimated.error === null || body === null ? [] : (asProblem(estimated.error).errors ?? [])}
            environmentProblem={environment.problem}
            onField={(field, given) => draft.set((before) => ({ ...before, script: withField(before.script, field, given) }))}
            onDraft={draft.set}
          />
        </div>
      </div>
      <SubmitBar
        cluster={cluster}
        estimated={body === null ? null : estimated}
        findings={findings}
        mayWrite={person.mayWrite}
        payer={payer}
        disabled={wrong}
        act={act}
        submit={() => act.submit(submission(draft.value))}
      />
      <Confirm
        opened={asks}
        close={rerunTaken}
        title={text("submit.rerun.title")}
        verb={text("submit.rerun.replace")}
        keep={text("submit.rerun.keep")}
        act={() => Promise.resolve(replace())}
      >
        <Text>{text("submit.rerun.text", { number: rerun ?? "" })}</Text>
      </Confirm>
    </Page>
  );
}
