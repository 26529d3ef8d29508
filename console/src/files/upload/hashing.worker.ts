/** The worker that computes SHA-256, slice by slice, so that neither the page waits nor the memory grows. */

import { createSHA256, type IHasher } from "hash-wasm";

export type ToHashing = { say: "hash"; id: number; blob: Blob } | { say: "cancel"; id: number };
export type FromHashing = { id: number; sha256: string } | { id: number; failed: string };

const SLICE_BYTES = 4 * 1024 * 1024;
const cancelled = new Set<number>();
let last: Promise<void> = Promise.resolve();
let hasher: Promise<IHasher> | null = null;

addEventListener("message", ({ data }: MessageEvent<ToHashing>) => {
  if (data.say === "cancel") {
    cancelled.add(data.id);
    return;
  }
  // One after the other: two at once would be no faster and hold two slices.
  last = last.then(() => answer(data.id, data.blob));
});

async function answer(id: number, blob: Blob): Promise<void> {
  let said: FromHashing;
  try {
    said = { id, sha256: await sha256(id, blob) };
  } catch (error) {
    said = { id, failed: error instanceof Error ? error.message : String(error) };
  }
  cancelled.delete(id);
  postMessage(said);
}

/** The SHA-256 in base64, as S3 writes it. */
async function sha256(id: number, blob: Blob): Promise<string> {
  hasher ??= createSHA256();
  const running = await hasher;
  running.init();
  for (let begin = 0; begin < blob.size; begin += SLICE_BYTES) {
    if (cancelled.has(id)) throw new Error("cancelled");
    running.update(new Uint8Array(await blob.slice(begin, begin + SLICE_BYTES).arrayBuffer()));
  }
  return btoa(String.fromCharCode(...running.digest("binary")));
}
