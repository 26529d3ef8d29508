/** The page of a shared link, for people without an account: one job, read only. */

import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "@tanstack/react-router";
import { useEffect, useState, type ReactNode } from "react";
import type { SharedJob } from "../api/schema";
import type { OutputChoice } from "../jobs/output/OutputView";
import { text } from "../texts";
import { Announcer } from "../ui/announcements";
import { Empty } from "../ui/Empty";
import { exact, short } from "../ui/format";
import { UserText } from "../ui/UserText";
import { stateGroup } from "../ui/jobStates";
import { ProblemView } from "../ui/ProblemView";
import { StateMark } from "../ui/StateMark";
import { SharedFacts } from "./SharedFacts";
import { SharedOutput } from "./SharedOutput";
import { SharedScript } from "./SharedScript";
import classes from "./shared_links.module.css";
import { sharedJobQuery, tokenOf } from "./sharedJob";
import { RefreshButton } from "../ui/RefreshButton";

export function SharedPage() {
  const token = tokenOf(useLocation({ select: ({ hash }) => hash }));
  useEffect(() => {
    // Not the name of the job: titles are kept in histories, and by what watches windows.
    document.title = text("ui.tab_title", { page: text("shared_links.page.title") });
  }, []);
  return token === null ? <Dead /> : <Opened key={token} token={token} />;
}

function Frame({ children }: { children: ReactNode }) {
  return (
    <div className={classes.frame}>
      <header className={classes.bar}>
        <span>{text("shared_links.page.title")}</span>
        <Link to="/sign-in">{text("shared_links.page.sign_in")}</Link>
      </header>
      <main className={classes.main}>{children}</main>
      <Announcer />
    </div>
  );
}

function Dead() {
  return (
    <Frame>
      <h1 className={classes.heading}>{text("shared_links.page.dead")}</h1>
      <p>{text("shared_links.page.dead_details")}</p>
    </Frame>
  );
}

function Opened({ token }: { token: string }) {
  const { data: job, error, isPending, isFetching, dataUpdatedAt, refetch } = useQuery(sharedJobQuery(token));
  if (job === null) return <Dead />;
  return (
    <Frame>
      {error === null ? null : <ProblemView error={error} retry={() => void refetch()} />}
      {isPending && error === null ? <div className={classes.skeleton} role="status" aria-label={text("ui.loading")} /> : null}
      {job === undefined ? null : (
        <>
          <Head job={job} />
          <p className={classes.line}>
            <span role="status">{text("shared_links.page.as_of", { time: short(new Date(dataUpdatedAt)) })}</span>
            <RefreshButton busy={isFetching} refresh={() => void refetch()}>
              {text("shared_links.page.again")}
            </RefreshButton>
            <span className={classes.quiet}>{text("shared_links.page.read_only", { date: exact(new Date(job.expires_at)) })}</span>
          </p>
          <SharedFacts job={job} />
          <Output job={job} token={token} readAt={dataUpdatedAt} />
          {job.shows.includes("script") ? <SharedScript token={token} /> : null}
        </>
      )}
    </Frame>
  );
}

function Head({ job }: { job: SharedJob }) {
  return (
    <div className={classes.head}>
      <h1 className={classes.heading}>
        <UserText>{text("jobs.title", { number: job.job_id, name: job.name || text("jobs.unnamed") })}</UserText>
      </h1>
      <StateMark state={job.state} />
    </div>
  );
}

function Output({ job, token, readAt }: { job: SharedJob; token: string; readAt: number }) {
  // Not in the address, which is the link: whoever passes it on passes on nothing else.
  const [choice, setChoice] = useState<OutputChoice>({ stream: "stdout", wrap: false, find: "" });
  if (!job.shows.includes("output")) return null;
  return (
    <section className={classes.output} aria-labelledby="shared-output">
      <h2 id="shared-output">{text("shared_links.page.output")}</h2>
      {stateGroup(job.state) === "waiting" ? (
        <Empty title={text("job.output.waits")} />
      ) : (
        <SharedOutput key={readAt} token={token} choice={choice} choose={(to) => setChoice((now) => ({ ...now, ...to }))} />
      )}
    </section>
  );
}
