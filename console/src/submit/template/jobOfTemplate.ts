/** A job of a template as it is estimated. */

import type { ScriptSubmission } from "../../api/schema";

/** The gateway gives jobs of templates no other variables than these. */
const ENVIRONMENT = ["PATH=/usr/local/bin:/usr/bin:/bin"];

export function jobOfTemplate(script: string): ScriptSubmission {
  return { script, job: { environment: ENVIRONMENT } };
}
