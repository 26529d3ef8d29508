/** The values of a form that no draft keeps, and the request that they make. */

import { useMemo, useState } from "react";
import { firstValues, requestOf, type FormRequest, type Part, type Problems, type Values } from "./values";

export interface Parameters {
  values: Values;
  request: FormRequest;
  problems: Problems;
  change: (key: string, value: string) => void;
  /** Forgets what was given, for another template. */
  clear: () => void;
}

const NONE: Values = {};

/** `parts` and `before`, the values to begin with, must be the same objects as long as they are the same. */
export function useParameters(parts: readonly Part[], before: Values = NONE): Parameters {
  const [given, setGiven] = useState<Values>({});
  const values = useMemo(() => ({ ...firstValues(parts), ...before, ...given }), [parts, before, given]);
  const { request, problems } = useMemo(() => requestOf(parts, values), [parts, values]);
  return {
    values,
    request,
    problems,
    change: (key, value) => setGiven((others) => ({ ...others, [key]: value })),
    clear: () => setGiven({}),
  };
}
