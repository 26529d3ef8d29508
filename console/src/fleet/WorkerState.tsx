/** What a worker does: a word, a shape and a colour. */

import type { WorkerView } from "../api/schema";
import { text } from "../texts";
import classes from "./fleet.module.css";

type State = NonNullable<WorkerView["state"]> | "unknown";

const SHAPES: Record<State, string> = {
  booting: "◑",
  idle: "○",
  busy: "●",
  draining: "◔",
  down: "✕",
  terminating: "–",
  failed: "✕",
  unknown: "?",
};

export function WorkerState({ state }: { state: WorkerView["state"] }) {
  const shown: State = state ?? "unknown";
  return (
    <span className={classes.state} data-state={shown}>
      <span aria-hidden>{SHAPES[shown]}</span> {text(`fleet.state.${shown}`)}
    </span>
  );
}
