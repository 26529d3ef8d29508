import { beforeEach, expect, test, vi } from "vitest";
import { endPage } from "../../ui/forms/leaving";
import { UploadQueue, uploads } from "./queue";
import type { Source } from "./transfer";

interface Running {
  source: Source;
  signal: AbortSignal;
  progress: (bytes: number) => void;
  resolve: () => void;
  reject: (error: unknown) => void;
}

let running: Running[] = [];
const send = (source: Source, signal: AbortSignal, progress: (bytes: number) => void) =>
  new Promise<void>((resolve, reject) => {
    running.push({ source, signal, progress, resolve, reject });
    signal.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
  });
const { transferred } = vi.hoisted(() => ({ transferred: [] as AbortSignal[] }));
vi.mock("./transfer", () => ({
  upload: (_: Source, signal: AbortSignal) => new Promise(() => void transferred.push(signal)),
}));
const named = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ path: `data/${index}`, file: new File(["1234"], `${index}`) }));
const settled = async () => {
  await vi.advanceTimersByTimeAsync(500);
};

beforeEach(() => {
  running = [];
  vi.useFakeTimers();
});

test("three files are sent at once, the others when those are done", async () => {
  const queue = new UploadQueue(send);
  queue.add("main", named(5));
  running[0]?.progress(2);
  await settled();
  expect(running).toHaveLength(3);
  expect(queue.snapshot()).toMatchObject({ waiting: 2, total: 5, done: 0, sentBytes: 2, totalBytes: 20 });
  running[0]?.resolve();
  await settled();
  expect(running).toHaveLength(4);
  expect(queue.snapshot()).toMatchObject({ waiting: 1, done: 1, sentBytes: 4 });
});

test("a failure stops no other, and is tried again with the same key", async () => {
  const queue = new UploadQueue(send);
  queue.add("main", named(2));
  running[0]?.reject(new Error("cut"));
  running[1]?.resolve();
  await settled();
  const { failed, done } = queue.snapshot();
  expect([failed.length, done]).toEqual([1, 1]);
  queue.retry(failed.map(({ id }) => id));
  await settled();
  expect(running[2]?.source.key).toBe(running[0]?.source.key);
  running[2]?.resolve();
  await settled();
  expect(queue.snapshot()).toMatchObject({ done: 2, total: 2, failed: [] });
});

test("what is cancelled has not failed, and nothing that waited begins", async () => {
  const queue = new UploadQueue(send);
  queue.add("main", named(9));
  queue.cancel(queue["running"].keys().next().value ?? "");
  await settled();
  expect(running[0]?.signal.aborted).toBe(true);
  queue.cancelAll();
  await settled();
  expect(running).toHaveLength(4);
  expect(queue.snapshot()).toMatchObject({ total: 0, running: [], failed: [] });
});

test("with the session all uploads end at once, and the browser does not ask", () => {
  uploads.add("main", named(5));
  expect(uploads.isBusy).toBe(true);
  endPage();
  expect(transferred.map(({ aborted }) => aborted)).toEqual([true, true, true]);
  expect(uploads.isBusy).toBe(false);
});
