/** What one can do to a job. Each act works once for each click, and its failure is told beside it. */

import { Button, Group } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useRef, useState } from "react";
import { profileQuery } from "../../api/queries";
import type { JobWithCost } from "../../api/schema";
import { OtherOwners } from "../../app/OtherOwners";
import { mayList } from "../../shared_links/queries";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { UserText } from "../../ui/UserText";
import { ProblemView } from "../../ui/ProblemView";
import { useKeptFocus } from "../../ui/useKeptFocus";
import { cancelJob, holdJob, releaseJob, requeueJob } from "../actions";
import { wholeState } from "../arraySummary";
import { EditForm } from "./EditForm";
import { useArraySummary } from "./useArraySummary";

const ShareDialog = lazy(() =>
  import("../../shared_links/ShareDialog").then(({ ShareDialog: component }) => ({ default: component })),
);

interface Props {
  cluster: string;
  job: JobWithCost;
}

type Asked = "cancel" | "requeue" | "edit" | "share" | null;

export function JobActions({ cluster, job }: Props) {
  const queries = useQueryClient();
  const { data: me } = useQuery(profileQuery);
  const [asked, setAsked] = useState<Asked>(null);
  const key = useRef(crypto.randomUUID());
  const target = { cluster, job: job.job_id };
  /** Reads what changed, and makes the key of the next change. */
  const changed = () => {
    key.current = crypto.randomUUID();
    void queries.invalidateQueries({ queryKey: ["job", cluster, job.job_id] });
  };
  const { waits, runs, over, held } = useArraySummary(cluster, job) ?? wholeState(job);
  const hold = useMutation({
    mutationFn: () => (held ? releaseJob(target, key.current) : holdJob(target, key.current)),
    onSuccess: changed,
    onError: () => (key.current = crypto.randomUUID()),
  });
  const close = () => setAsked(null);
  const buttons = useKeptFocus<HTMLDivElement>();
  return (
    <>
      <Group gap="xs" ref={buttons}>
        {me !== undefined && mayList(me, job) ? (
          <Button variant="default" onClick={() => setAsked("share")}>
            {text("job.act.share")}
          </Button>
        ) : null}
        {waits ? (
          <Button variant="default" loading={hold.isPending} onClick={() => hold.mutate()}>
            {text(held ? "job.act.release" : "job.act.hold")}
          </Button>
        ) : null}
        {over ? null : (
          <Button variant="default" onClick={() => setAsked("edit")}>
            {text("job.act.edit")}
          </Button>
        )}
        {waits && !runs ? null : (
          <Button variant="default" onClick={() => setAsked("requeue")}>
            {text("job.act.requeue")}
          </Button>
        )}
        <Button variant="default" renderRoot={(props) => <Link to="/c/$cluster/submit" params={{ cluster }} search={{ rerun: job.job_id }} {...props} />}>
          {text("job.act.rerun")}
        </Button>
        {over ? null : (
          <Button variant="default" onClick={() => setAsked("cancel")}>
            {text("job.act.cancel")}
          </Button>
        )}
      </Group>
      {hold.isError ? <ProblemView error={hold.error} /> : null}
      <Confirm
        opened={asked === "cancel"}
        close={close}
        title={text("job.cancel.title", { number: job.job_id })}
        verb={text("job.cancel.verb")}
        act={() => cancelJob(target).then(changed)}
      >
        <OtherOwners owners={[job.user]} />
        <span>
          <UserText>{job.name}</UserText> · {text(runs ? "job.cancel.running" : "job.cancel.waiting")}
        </span>
      </Confirm>
      <Confirm
        opened={asked === "requeue"}
        close={close}
        title={text("job.requeue.title", { number: job.job_id })}
        verb={text("job.requeue.verb")}
        dangerous={runs}
        act={() => requeueJob(target, key.current).then(changed)}
      >
        <OtherOwners owners={[job.user]} />
        <span>{text(runs ? "job.requeue.running" : "job.requeue.ended")}</span>
      </Confirm>
      {asked === "share" && me !== undefined ? (
        <Suspense fallback={null}>
          <ShareDialog cluster={cluster} job={job} me={me} close={close} />
        </Suspense>
      ) : null}
      {asked === "edit" ? <EditForm cluster={cluster} job={job} close={close} changed={changed} /> : null}
    </>
  );
}
