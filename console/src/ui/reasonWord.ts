/** Why a job waits, in a few words. */

import { text } from "../texts";

/** The words of Slurm's common reasons; others as Slurm has them. */
export function reasonWord(reason: string): string {
  switch (reason) {
    case "BeginTime":
    case "Dependency":
    case "JobHeldAdmin":
    case "JobHeldUser":
    case "Priority":
    case "Resources":
      return text(`ui.reasons.${reason}`);
    default:
      return reason;
  }
}
