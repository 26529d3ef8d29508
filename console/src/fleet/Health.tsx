/** The health of a cluster in a line: connection, state, what is degraded, and what waits. */

import type { ReactNode } from "react";
import type { ClusterDetail } from "../api/schema";
import { text } from "../texts";
import { count } from "../ui/format";
import { visible } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import classes from "./fleet.module.css";

interface Point {
  id: string;
  tone: "good" | "bad" | "wait" | "plain";
  words: string;
  since?: string;
}

const SIGNS = { good: "●", bad: "✕", wait: "◔", plain: "·" } as const;

export function Health({ cluster }: { cluster: ClusterDetail }) {
  return (
    <ul className={classes.health} aria-label={text("fleet.health.label")}>
      {points(cluster).map(({ id, tone, words, since }) => (
        <li key={id} data-tone={tone}>
          <span aria-hidden>{SIGNS[tone]}</span> {words}
          {since === undefined ? null : <Since at={since} />}
        </li>
      ))}
    </ul>
  );
}

function Since({ at }: { at: string }): ReactNode {
  return (
    <>
      {" "}
      (<Moment at={at} />)
    </>
  );
}

function points(cluster: ClusterDetail): Point[] {
  const connected = cluster.connection_state === "connected";
  const found: Point[] = [{ id: "connection", tone: connected ? "good" : "bad", words: text(`fleet.health.${cluster.connection_state}`) }];
  if (cluster.state === "paused") found.push({ id: "state", tone: "wait", words: text("fleet.health.paused") });
  if (cluster.state === "deleting") found.push({ id: "state", tone: "bad", words: text("fleet.health.deleting") });
  if (cluster.degraded === null) found.push({ id: "degraded", tone: "wait", words: text("fleet.health.unknown") });
  else if (cluster.degraded.length === 0) found.push({ id: "degraded", tone: "good", words: text("fleet.health.healthy") });
  for (const { reason, message, since } of cluster.degraded ?? []) {
    found.push({ id: reason, tone: "bad", words: text("fleet.health.degraded", { message: visible(message || reason) }), since });
  }
  const { queue } = cluster;
  if (queue !== null && queue.pending !== null && queue.running !== null) {
    found.push({ id: "queue", tone: "plain", words: text("fleet.health.queue", { waiting: count(queue.pending), running: count(queue.running) }) });
  }
  return found;
}
