/** Sends bytes to an address that the gateway has signed, and tells how far it is. */

import { NO_ANSWER, ProblemError } from "../../api/problem";
import { text } from "../../texts";

interface Signed {
  url: string;
  headers: Readonly<Record<string, string>>;
}

const TRIES = 3;
const FIRST_DELAY_MS = 1_000;

/** One PUT. `fetch` does not tell the progress of what it sends, so this is XMLHttpRequest. */
export function put(signed: Signed, content: Blob, signal: AbortSignal, progress: (bytes: number) => void): Promise<void> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const stop = () => request.abort();
    request.open("PUT", signed.url);
    for (const [name, value] of Object.entries(signed.headers)) {
      // The browser itself sends the length, and lets no page do so.
      if (name.toLowerCase() !== "content-length") request.setRequestHeader(name, value);
    }
    request.upload.addEventListener("progress", ({ loaded }) => progress(loaded));
    request.addEventListener("loadend", () => signal.removeEventListener("abort", stop));
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) resolve();
      else reject(refused(request.status));
    });
    request.addEventListener("error", () => reject(refused(NO_ANSWER)));
    request.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    signal.addEventListener("abort", stop, { once: true });
    request.send(content);
  });
}

function refused(status: number): ProblemError {
  const title = status === NO_ANSWER ? text("files.upload.no_answer") : text("files.upload.refused", { status });
  return new ProblemError({ type: "about:blank", title, status, detail: title, request_id: "" });
}

/** Does something again that failed for a while, up to three times in all. */
export async function withRetries<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await act();
    } catch (error) {
      if (signal.aborted || failures >= TRIES || !passing(error)) throw error;
      await delayed(FIRST_DELAY_MS * 2 ** (failures - 1), signal);
    }
  }
}

function passing(error: unknown): boolean {
  return error instanceof ProblemError && (error.status === NO_ANSWER || error.status === 429 || (error.status >= 500 && error.status !== 504));
}

function delayed(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), reject(new DOMException("", "AbortError"))), { once: true });
  });
}
