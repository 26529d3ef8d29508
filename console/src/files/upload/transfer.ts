/**
 * The upload of one file: a small one by one request, a large one in parts. An upload in parts that was begun before is
 * found in the bucket and goes on: every part is hashed, and those that the bucket has are not sent again.
 */

import { api, body, done } from "../../api/client";
import { ProblemError } from "../../api/problem";
import type { SentPart } from "../../api/schema";
import { isBeingLeft } from "../../ui/forms/leaving";
import { sha256 } from "./hash";
import { partSizeOf, partCount, partRange } from "./plan";
import { withRetries, put } from "./send";

export interface Source {
  cluster: string;
  /** Of the file in the bucket. */
  path: string;
  file: File;
  /** The same when a failed upload is tried again; another one when that upload is gone. */
  key: string;
}

/** Up to this size a file is sent by one request: the API cuts no file into parts that are smaller. */
const ONE_REQUEST_BYTES = 64 * 1024 * 1024;

/** Uploads a file, and calls `progress` with the bytes that the bucket has. */
export async function upload(source: Source, signal: AbortSignal, progress: (bytes: number) => void): Promise<void> {
  if (source.file.size <= ONE_REQUEST_BYTES) await sendWhole(source, signal, progress);
  else await sendParts(source, signal, progress);
}

async function sendWhole({ cluster, path, file }: Source, signal: AbortSignal, progress: (bytes: number) => void): Promise<void> {
  // A slice has no type, so that no header is sent that was not signed.
  const content = file.slice(0, file.size, "");
  const digest = await sha256(content, signal);
  await withRetries(signal, async () => {
    const signed = await body(
      api.POST("/v1/clusters/{cluster_id}/storage/presigned-url", {
        params: { path: { cluster_id: cluster } },
        body: { path, method: "PUT", size: file.size, sha256: digest },
        signal,
      }),
    );
    await put(signed, content, signal, progress);
  });
}

interface Upload {
  id: string;
  partSize: number;
  /** The SHA-256 of the parts that the bucket has, by their numbers. */
  there: ReadonlyMap<number, string | null>;
}

async function sendParts(source: Source, signal: AbortSignal, progress: (bytes: number) => void): Promise<void> {
  try {
    await sendUpload(source, signal, progress);
  } catch (error) {
    if (signal.aborted || !isGone(error)) throw error;
    // The same key is answered with the same upload for a day, also when that is gone.
    source.key = crypto.randomUUID();
    await sendUpload(source, signal, progress);
  }
}

function isGone(error: unknown): boolean {
  return error instanceof ProblemError && error.status === 404;
}

async function sendUpload(source: Source, signal: AbortSignal, progress: (bytes: number) => void): Promise<void> {
  const begun =
    (await withRetries(signal, () => begunBefore(source, signal))) ??
    (await withRetries(signal, () => begin(source, signal)));
  try {
    const parts = await sendMissing(source, begun, signal, progress);
    const key = crypto.randomUUID();
    await withRetries(signal, () => complete(source, begun.id, { parts, key }, signal));
  } catch (error) {
    // After a failure the parts stay, so that the upload can go on. Who cancels wants none of them. With the end of the
    // session nothing is sent any more: it would be sent as whoever signs in next.
    if (signal.aborted && !isBeingLeft()) await forget(source.cluster, source.path, begun.id).catch(() => undefined);
    throw error;
  }
}

/** Sends the parts that the bucket lacks, and returns all with their SHA-256. */
async function sendMissing(
  source: Source,
  found: Upload,
  signal: AbortSignal,
  progress: (bytes: number) => void,
): Promise<SentPart[]> {
  const { file } = source;
  const count = partCount(file.size, found.partSize);
  const content = (number: number) => {
    const { begin: first, end } = partRange(number, file.size, found.partSize);
    return file.slice(first, end, "");
  };
  const parts: SentPart[] = [];
  let sent = 0;
  let next = hashed(content(1), signal);
  for (let number = 1; number <= count; number += 1) {
    const part = content(number);
    const digest = await next;
    // The next part is hashed while this one is sent.
    if (number < count) next = hashed(content(number + 1), signal);
    if (found.there.get(number) !== digest) {
      const before = sent;
      const wanted = { number, sha256: digest, content: part };
      await withRetries(signal, () => sendPart(source, found.id, wanted, { signal, progress: (bytes) => progress(before + bytes) }));
    }
    parts.push({ number, sha256: digest });
    sent += part.size;
    progress(sent);
  }
  return parts;
}

/** Starts to hash. A failure is told to whoever awaits it, and not as one that nobody has seen. */
function hashed(content: Blob, signal: AbortSignal): Promise<string> {
  const digest = sha256(content, signal);
  digest.catch(() => undefined);
  return digest;
}

/** The latest upload to this path that was not completed, if it was of a file of this size. */
async function begunBefore({ cluster, path, file }: Source, signal: AbortSignal): Promise<Upload | null> {
  const { uploads } = await body(
    api.GET("/v1/clusters/{cluster_id}/files/uploads", { params: { path: { cluster_id: cluster }, query: { path } }, signal }),
  );
  const latest = uploads.filter((each) => each.path === path.normalize("NFC")).toSorted((a, b) => b.begun_at.localeCompare(a.begun_at))[0];
  if (latest === undefined) return null;
  const parts = [];
  let after: number | null = 0;
  while (after !== null) {
    const page: Awaited<ReturnType<typeof readParts>> = await readParts(cluster, latest.upload_id, { path, after }, signal);
    parts.push(...page.parts);
    after = page.next_after;
  }
  const partSize = partSizeOf(file.size, parts);
  if (partSize === null) return null;
  return { id: latest.upload_id, partSize, there: new Map(parts.map((part) => [part.number, part.sha256])) };
}

function readParts(cluster: string, uploadId: string, query: { path: string; after: number }, signal: AbortSignal) {
  return body(
    api.GET("/v1/clusters/{cluster_id}/files/uploads/{upload_id}/parts", {
      params: { path: { cluster_id: cluster, upload_id: uploadId }, query },
      signal,
    }),
  );
}

async function begin({ cluster, path, file, key }: Source, signal: AbortSignal): Promise<Upload> {
  const begun = await body(
    api.POST("/v1/clusters/{cluster_id}/files/uploads", {
      params: { path: { cluster_id: cluster }, header: { "Idempotency-Key": key } },
      body: { path, size: file.size },
      signal,
    }),
  );
  return { id: begun.upload_id, partSize: begun.part_size, there: new Map() };
}

interface Part {
  number: number;
  sha256: string;
  content: Blob;
}

async function sendPart({ cluster, path }: Source, uploadId: string, part: Part, { signal, progress }: { signal: AbortSignal; progress: (bytes: number) => void }): Promise<void> {
  const { urls } = await body(
    api.POST("/v1/clusters/{cluster_id}/files/uploads/{upload_id}/part-urls", {
      params: { path: { cluster_id: cluster, upload_id: uploadId } },
      body: { path, parts: [{ number: part.number, size: part.content.size, sha256: part.sha256 }] },
      signal,
    }),
  );
  const [signed] = urls;
  if (signed === undefined) throw new Error("the gateway has signed no address");
  await put(signed, part.content, signal, progress);
}

async function complete({ cluster, path, file }: Source, uploadId: string, { parts, key }: { parts: SentPart[]; key: string }, signal: AbortSignal): Promise<void> {
  await body(
    api.POST("/v1/clusters/{cluster_id}/files/uploads/{upload_id}/complete", {
      params: { path: { cluster_id: cluster, upload_id: uploadId }, header: { "Idempotency-Key": key } },
      body: { path, size: file.size, parts },
      signal,
    }),
  );
}

/** Forgets an upload in parts, with what was sent of it. */
export async function forget(cluster: string, path: string, uploadId: string): Promise<void> {
  await done(
    api.DELETE("/v1/clusters/{cluster_id}/files/uploads/{upload_id}", {
      params: { path: { cluster_id: cluster, upload_id: uploadId }, query: { path } },
    }),
  );
}
