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
