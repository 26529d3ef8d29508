/** What a tab and the worker that holds the stream say to each other. */

import type { LiveEvent } from "./event";

/**
 * `connecting`: not connected yet, or again. `live`: connected, and everything that happened is here. `lost`: the
 * gateway does not answer. `refused`: it answers that nobody is signed in, or that the cluster is not the caller's.
 */
export type LiveState = "connecting" | "live" | "lost" | "refused";

export type FromTab =
  /** Follow a cluster. `after` is the position of the list that the tab has: events from there on are wanted. */
  | { say: "follow"; cluster: string; after: number }
  | { say: "leave" }
  /** The person signed out or in here: other tabs go along. */
  | { say: "session-changed" }
  | { say: "still-here" };

export type ToTab =
  | { say: "state"; cluster: string; state: LiveState; since: number }
  | { say: "events"; cluster: string; events: LiveEvent[] }
  /** Some events are not told: the tab reads its lists again. */
  | { say: "reset"; cluster: string }
  | { say: "session-changed" }
  /** The answer to `still-here`. */
  | { say: "here" };
