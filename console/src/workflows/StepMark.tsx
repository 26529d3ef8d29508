/** The state of a step: that of its job, or its own word where jobs have none. */

import type { StepView } from "../api/schema";
import { text } from "../texts";
import { StateMark } from "../ui/StateMark";
import { stateWord } from "../ui/stateWord";
import { stepLikeJob } from "./runs";

/** The word of a step's state. */
export function stepWord(step: StepView): string {
  switch (step.state) {
    case "rejected":
    case "not_submitted":
    case "unknown":
      return text(`workflows.state.${step.state}`);
    default:
      return stateWord(stepLikeJob(step));
  }
}

export function StepMark({ step }: { step: StepView }) {
  return <StateMark state={stepLikeJob(step)} word={stepWord(step)} />;
}
