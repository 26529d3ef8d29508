/** The word of a job's state, the same wherever a state is told. */

import { text } from "../texts";
import { stateGroup } from "./jobStates";

/** `Waiting` of `PENDING`. */
export function stateWord(state: string): string {
  return text(`ui.states.${stateGroup(state)}`);
}
