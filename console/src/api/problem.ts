/** Errors of the API: RFC 9457 problems, with the hint and the request id that the gateway adds. */

import * as v from "valibot";

const Problem = v.object({
  type: v.optional(v.string(), "about:blank"),
  title: v.string(),
  status: v.number(),
  detail: v.optional(v.string(), ""),
  hint: v.nullish(v.string()),
  errors: v.nullish(v.array(v.object({ pointer: v.optional(v.string(), ""), detail: v.optional(v.string(), "") }))),
  request_id: v.optional(v.string(), ""),
});

export type Problem = v.InferOutput<typeof Problem>;

export class ProblemError extends Error {
  override name = "ProblemError";

  constructor(
    readonly problem: Problem,
    /** Seconds after which the gateway asks to try again. */
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(problem.detail || problem.title);
  }

  get status(): number {
    return this.problem.status;
  }
}

/** The status of a request that got no answer. */
export const NO_ANSWER = 0;

/** The problem of a response that is no success. */
export async function problemOf(response: Response): Promise<ProblemError> {
  const after = Number(response.headers.get("Retry-After"));
  const given = v.safeParse(Problem, await response.json().catch(() => null));
  const problem = given.success
    ? given.output
    : {
        type: "about:blank",
        title: response.statusText || String(response.status),
        status: response.status,
        detail: "",
        request_id: response.headers.get("X-Request-Id") ?? "",
      };
  return new ProblemError(problem, Number.isFinite(after) && after > 0 ? after : null);
}

/** The problem of a request that got no answer at all. */
export function unreachable(cause: unknown): Error {
  if (cause instanceof DOMException && cause.name === "AbortError") return cause;
  return new ProblemError({ type: "about:blank", title: "", status: NO_ANSWER, detail: "", request_id: "" });
}

/** The problem in whatever was thrown. A fault of the console itself becomes one, too. */
export function asProblem(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  const detail = error instanceof Error ? error.message : String(error);
  return { type: "about:blank", title: "", status: -1, detail, request_id: "" };
}
