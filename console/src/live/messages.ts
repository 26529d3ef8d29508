/** What a tab and the worker that holds the stream say to each other. */

import type { LiveEvent } from "./event";

/**
 * `connecting`: not connected yet, or again. `live`: connected, and everything that happened is here. `lost`: the
 * gateway does not answer. `refused`: it answers that nobody is signed in, or that the cluster is not the caller's.
 */
export type LiveState = "connecting" | "live" | "lost" | "refused";

/** What a tab follows. Answers to an earlier `turn` are of no use to it any more. */
export interface Following {
  turn: number;
  cluster: string;
  /** Events behind this position are wanted. */
  after: number;
}

export type FromTab =
  | ({ say: "follow" } & Following)
  /** Answered with the state. The worker may have forgotten the tab, such as after the machine slept. */
  | { say: "still-here"; following: Following | null }
  | { say: "leave" }
  /** The person signed out or in here: other tabs go along. */
  | { say: "session-changed" };

export type ToTab =
  /** `heard`: when the stream last said something, in milliseconds since the epoch. */
  | { say: "state"; turn: number; state: LiveState; heard: number }
  | { say: "events"; turn: number; events: LiveEvent[] }
  /** The events up to `position` are not told: the tab reads its lists again. */
  | { say: "reset"; turn: number; position: number }
  | { say: "session-changed" }
  /** The answer to a tab that follows nothing. */
  | { say: "here" };
