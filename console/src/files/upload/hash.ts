/** SHA-256 of blobs, computed by a worker. */

import type { FromHashing, ToHashing } from "./hashing.worker";

let worker: Worker | null = null;
let lastId = 0;
const waiting = new Map<number, { resolve: (sha256: string) => void; reject: (error: Error) => void }>();

function started(): Worker {
  if (worker !== null) return worker;
  worker = new Worker(new URL("./hashing.worker.ts", import.meta.url), { type: "module", name: "clusterra-hashing" });
  worker.addEventListener("message", ({ data }: MessageEvent<FromHashing>) => {
    const asked = waiting.get(data.id);
    waiting.delete(data.id);
    if ("sha256" in data) asked?.resolve(data.sha256);
    else asked?.reject(new Error(data.failed));
  });
  worker.addEventListener("error", (event) => {
    for (const { reject } of waiting.values()) reject(new Error(event.message));
    waiting.clear();
    worker?.terminate();
    worker = null;
  });
  return worker;
}

/** The SHA-256 of a blob in base64. Rejects with an AbortError when the signal says so. */
export function sha256(blob: Blob, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  const id = ++lastId;
  const say = (message: ToHashing) => started().postMessage(message);
  return new Promise((resolve, reject) => {
    const stop = () => {
      waiting.delete(id);
      say({ say: "cancel", id });
      reject(new DOMException("", "AbortError"));
    };
    signal.addEventListener("abort", stop, { once: true });
    const end = () => signal.removeEventListener("abort", stop);
    waiting.set(id, {
      resolve: (found) => (end(), resolve(found)),
      reject: (error) => (end(), reject(error)),
    });
    say({ say: "hash", id, blob });
  });
}
