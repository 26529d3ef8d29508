/** The state of a job: a word, a shape and a colour, so that the colour is never alone. Slurm's own word is its title. */

import classes from "./StateMark.module.css";
import { stateGroup, type StateGroup } from "./jobStates";
import { stateWord } from "./stateWord";

const SHAPES: Record<StateGroup, string> = {
  waiting: "◔",
  starting: "◑",
  running: "●",
  done: "✓",
  failed: "✕",
  cancelled: "–",
};

interface Props {
  state: string;
  /** Said in place of the group's word, for what is no job, such as a session. */
  word?: string;
}

export function StateMark({ state, word }: Props) {
  const group = stateGroup(state);
  return (
    <span className={classes.mark} data-state={group} title={state}>
      <span aria-hidden>{SHAPES[group]}</span> {word ?? stateWord(state)}
    </span>
  );
}
