import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Feed } from "./feed";
import { Hub, type Port } from "./hub";
import type { FromTab, ToTab } from "./messages";

/** Stands for the browser's shared workers: one hub for all tabs, which can die. */
class Workers {
  hub = new Hub();
  alive = true;
  made = 0;

  connect(): { port: MessagePort } {
    this.made += 1;
    const { hub } = this;
    const listeners: ((message: { data: ToTab }) => void)[] = [];
    const port: Port = { postMessage: (data) => queueMicrotask(() => listeners.forEach((listener) => listener({ data }))) };
    hub.join(port);
    const end = {
      addEventListener: (_: string, listener: (message: { data: ToTab }) => void) => void listeners.push(listener),
      start: () => undefined,
      close: () => undefined,
      postMessage: (message: FromTab) => {
        if (this.alive && hub === this.hub) hub.hear(port, message);
      },
    };
    return { port: end as unknown as MessagePort };
  }
}

let workers: Workers;
let asked: string[];

beforeEach(() => {
  vi.useFakeTimers();
  workers = new Workers();
  asked = [];
  vi.stubGlobal("window", { addEventListener: () => undefined });
  vi.stubGlobal("SharedWorker", function connect() {
    return workers.connect();
  });
  vi.stubGlobal("fetch", (_: string, init: RequestInit) => {
    asked.push(new Headers(init.headers).get("Last-Event-ID") ?? "");
    return Promise.resolve(new Response(new ReadableStream()));
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a tab whose worker answers keeps it", async () => {
  const feed = new Feed();
  feed.follow("main", 7);
  await vi.advanceTimersByTimeAsync(60_000);

  expect(workers.made).toBe(1);
  expect(feed.status.state).toBe("live");
});

test("a worker that has died is replaced, and the tab goes on where it was", async () => {
  const feed = new Feed();
  feed.follow("main", 7);
  await vi.advanceTimersByTimeAsync(1_000);
  workers.alive = false;
  await vi.advanceTimersByTimeAsync(24_500);
  workers.hub = new Hub();
  workers.alive = true;
  await vi.advanceTimersByTimeAsync(10_000);

  expect(workers.made).toBeGreaterThan(1);
  expect(feed.status.state).toBe("live");
  expect(asked).toEqual(["7", "7"]);
});

test("after a reset the tab still hears what happens", async () => {
  let say: (lines: string) => void = () => undefined;
  vi.stubGlobal("fetch", () => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        say = (lines) => controller.enqueue(new TextEncoder().encode(lines));
      },
    });
    return Promise.resolve(new Response(body));
  });
  const feed = new Feed();
  const told: number[] = [];
  let resets = 0;
  feed.listen((events) => told.push(...events.map(({ position }) => position)));
  feed.onReset(() => void (resets += 1));
  feed.follow("main", 7);
  await vi.advanceTimersByTimeAsync(100);
  const event = '{"id": "e", "subject": "1", "time": "2026-01-01T00:00:00Z", "data": {"kind": "job.running"}}';
  say('event: reset\nid: 90\ndata: {}\n\n');
  say(`id: 91\ndata: ${event}\n\n`);
  await vi.advanceTimersByTimeAsync(1_000);

  expect(resets).toBe(1);
  expect(told).toEqual([91]);
  expect(feed.follow("main", 90).map(({ position }) => position)).toEqual([91]);
});
