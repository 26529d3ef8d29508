/** The typed client of the gateway. Every answer that is no success is thrown as a `ProblemError`. */

import createClient from "openapi-fetch";
import type { paths } from "./schema";
import { problemOf, unreachable } from "./problem";

export const api = createClient<paths>({
  // Looked up at each call: tests replace it.
  fetch: (request) => globalThis.fetch(request).catch((cause: unknown) => Promise.reject(unreachable(cause))),
  // The gateway takes several values of a parameter with commas between them.
  querySerializer: { array: { style: "form", explode: false } },
  credentials: "same-origin",
  headers: { Accept: "application/json" },
});

api.use({
  async onResponse({ response }) {
    if (!response.ok) throw await problemOf(response);
    return undefined;
  },
});

interface Answer<T> {
  data?: T;
  response: Response;
}

/** The body of an answer. */
export async function body<T>(answer: Promise<Answer<T>>): Promise<NonNullable<T>> {
  const { data, response } = await answer;
  if (data === undefined || data === null) throw await problemOf(response);
  return data;
}

/** How current a response is. */
export interface Positioned {
  /** The position in the stream of events that it is complete to; null where the gateway names none. */
  position: number | null;
  /** When it was read, by the page's clock in milliseconds. It distinguishes a new response from data that events have patched. */
  readAt: number;
}

/** The body of a list, and how far it is complete. */
export async function positioned<T>(answer: Promise<Answer<T>>): Promise<{ data: NonNullable<T> } & Positioned> {
  const { data, response } = await answer;
  if (data === undefined || data === null) throw await problemOf(response);
  const position = response.headers.get("Event-Position");
  return { data, position: position === null ? null : Number(position), readAt: performance.now() };
}

/** Awaits an answer without a body. */
export async function done(answer: Promise<Answer<unknown>>): Promise<void> {
  await answer;
}
