/**
 * A look at a file: its first bytes as text, or an image of one of four kinds. What kind a file is, its own bytes say,
 * and never its name; nothing of it is ever read as a document.
 */

import { ProblemError, unreachable } from "../../api/problem";
import { text } from "../../texts";
import { contentAddress } from "../actions";
import { imageSize, imageType } from "./images";
import type { Root } from "../paths";

export const TEXT_BYTES = 256 * 1024;
export const IMAGE_BYTES = 16 * 1024 * 1024;
/** A small file can hold a very large image: in memory each pixel takes four bytes. */
export const IMAGE_PIXELS = 50_000_000;

export type Preview =
  | { kind: "text"; text: string; whole: boolean }
  | { kind: "image"; image: Blob }
  | { kind: "none" };

/** The bytes as UTF-8; null where they are no text. A character that the end cuts is left out. */
export function asText(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return null;
  }
}

/** Reads no more of a file than is shown. */
export async function readPreview(cluster: string, root: Root, path: string, size: number, signal: AbortSignal): Promise<Preview> {
  if (size === 0) return { kind: "text", text: "", whole: true };
  const address = await contentAddress(cluster, root, path, signal);
  // The bucket's rule of CORS need not allow Range: there the answer is cut off when enough has come.
  const headers: HeadersInit = root === "folder" ? { Range: `bytes=0-${IMAGE_BYTES - 1}` } : {};
  const ours = root === "folder" ? "same-origin" : "omit";
  const response = await fetch(address, { headers, credentials: ours, referrerPolicy: "no-referrer", signal }).catch(
    (cause: unknown) => Promise.reject(unreachable(cause)),
  );
  if (!response.ok || response.body === null) {
    throw new ProblemError({ type: "about:blank", title: text("files.preview.refused"), status: response.status, detail: "", request_id: response.headers.get("X-Request-Id") ?? "" });
  }
  const first = new Bytes(response.body.getReader());
  await first.upTo(Math.min(TEXT_BYTES, size));
  const type = imageType(first.joined());
  if (type !== null) {
    const read = size <= IMAGE_BYTES ? await first.upTo(IMAGE_BYTES) : false;
    await first.stop();
    const bytes = first.joined();
    return read && isShown(bytes) ? { kind: "image", image: new Blob([bytes], { type }) } : { kind: "none" };
  }
  await first.stop();
  const shown = asText(first.joined().subarray(0, TEXT_BYTES));
  return shown === null ? { kind: "none" } : { kind: "text", text: shown, whole: size <= TEXT_BYTES };
}

/** Whether an image is small enough to be shown. One that does not say its size is not. */
export function isShown(bytes: Uint8Array): boolean {
  const size = imageSize(bytes);
  return size !== null && size.width > 0 && size.height > 0 && size.width * size.height <= IMAGE_PIXELS;
}

/** The beginning of a stream. */
class Bytes {
  private readonly chunks: Uint8Array[] = [];
  private length = 0;
  private ended = false;

  constructor(private readonly reader: ReadableStreamDefaultReader<Uint8Array>) {}

  /** Reads until so many bytes are there, or the end. Returns whether the end was reached. */
  async upTo(wanted: number): Promise<boolean> {
    while (!this.ended && this.length < wanted) {
      const { done, value } = await this.reader.read();
      if (done) this.ended = true;
      else {
        this.chunks.push(value);
        this.length += value.length;
      }
    }
    return this.ended || this.length <= wanted;
  }

  async stop(): Promise<void> {
    await this.reader.cancel().catch(() => undefined);
  }

  joined(): Uint8Array<ArrayBuffer> {
    const all = new Uint8Array(this.length);
    let at = 0;
    for (const chunk of this.chunks) {
      all.set(chunk, at);
      at += chunk.length;
    }
    return all;
  }
}
