import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { LiveEvent } from "./event";
import { Hub } from "./hub";
import type { ToTab } from "./messages";

/** A gateway that keeps its events, and of which connections can be cut. */
class Gateway {
  readonly events: { position: number; text: string }[] = [];
  readonly asked: (string | null)[] = [];
  status = 200;
  private readonly open = new Set<ReadableStreamDefaultController<Uint8Array>>();

  readonly fetch = (_url: string, init: RequestInit): Promise<Response> => {
    const after = new Headers(init.headers).get("Last-Event-ID");
    this.asked.push(after);
    if (this.status !== 200) return Promise.resolve(new Response(null, { status: this.status }));
    let own: ReadableStreamDefaultController<Uint8Array>;
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        own = controller;
        this.open.add(controller);
        for (const event of this.events) if (event.position > Number(after)) controller.enqueue(encoded(event));
      },
      cancel: () => void this.open.delete(own),
    });
    init.signal?.addEventListener("abort", () => {
      if (this.open.delete(own)) own.error(new DOMException("aborted", "AbortError"));
    });
    return Promise.resolve(new Response(stream, { headers: { "Content-Type": "text/event-stream" } }));
  };

  publish(position: number, kind = "job.running"): void {
    const text = JSON.stringify({ id: `e${position}`, subject: "1", time: "2026-01-01T00:00:00Z", data: { kind } });
    this.events.push({ position, text });
    for (const each of this.open) each.enqueue(encoded({ position, text }));
  }

  say(lines: string): void {
    for (const each of this.open) each.enqueue(new TextEncoder().encode(lines));
  }

  cut(): void {
    for (const each of this.open) each.error(new TypeError("network"));
    this.open.clear();
  }

  get connections(): number {
    return this.open.size;
  }
}

function encoded({ position, text }: { position: number; text: string }): Uint8Array {
  return new TextEncoder().encode(`id: ${position}\ndata: ${text}\n\n`);
}

class Tab {
  readonly heard: ToTab[] = [];
  private turn = 0;

  constructor(private readonly hub: Hub) {
    hub.join(this);
  }

  postMessage(message: ToTab): void {
    this.heard.push(message);
  }

  follow(after: number, cluster = "main"): void {
    this.turn += 1;
    this.hub.hear(this, { say: "follow", turn: this.turn, cluster, after });
  }

  stillHere(after: number): void {
    this.hub.hear(this, { say: "still-here", following: { turn: this.turn, cluster: "main", after } });
  }

  get positions(): number[] {
    return this.heard.flatMap((message) => (message.say === "events" ? message.events.map((e: LiveEvent) => e.position) : []));
  }

  get state(): string | undefined {
    return this.heard.findLast((message) => message.say === "state")?.state;
  }
}

let gateway: Gateway;
let hub: Hub;

beforeEach(() => {
  vi.useFakeTimers();
  gateway = new Gateway();
  vi.stubGlobal("fetch", gateway.fetch);
  hub = new Hub();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Lets timers and reads pass. */
async function pass(milliseconds = 100): Promise<void> {
  for (let i = 0; i < 10; i += 1) await vi.advanceTimersByTimeAsync(milliseconds / 10);
}

describe("the stream of all tabs", () => {
  test("ten tabs have one connection, and each is told every event once", async () => {
    const tabs = Array.from({ length: 10 }, () => new Tab(hub));
    for (const tab of tabs) tab.follow(5);
    await pass();
    gateway.publish(6);
    gateway.publish(8);
    await pass();
    expect(gateway.connections).toBe(1);
    for (const tab of tabs) expect(tab.positions).toEqual([6, 8]);
  });

  test("a tab that comes later is told what its list does not have, and nothing twice", async () => {
    const first = new Tab(hub);
    first.follow(0);
    await pass();
    for (const position of [1, 2, 3]) gateway.publish(position);
    await pass();
    const second = new Tab(hub);
    second.follow(2);
    await pass();
    expect(second.positions).toEqual([3]);
    expect(gateway.asked).toEqual(["0"]);
  });

  test("a list that is older than what is remembered opens the stream again from there", async () => {
    const first = new Tab(hub);
    first.follow(10);
    await pass();
    const second = new Tab(hub);
    second.follow(3);
    await pass();
    expect(gateway.asked).toEqual(["10", "3"]);
    expect(gateway.connections).toBe(1);
  });

  test("a cut connection resumes where it was: nothing is lost or told twice", async () => {
    const tab = new Tab(hub);
    tab.follow(0);
    await pass();
    gateway.publish(1);
    await pass();
    gateway.cut();
    gateway.publish(2);
    await pass(2_000);
    gateway.publish(3);
    await pass();
    expect(tab.positions).toEqual([1, 2, 3]);
    expect(tab.state).toBe("live");
  });

  test("a gateway that does not answer is told as lost, and as live again afterwards", async () => {
    const tab = new Tab(hub);
    tab.follow(0);
    await pass();
    gateway.status = 503;
    gateway.cut();
    await pass(5_000);
    expect(tab.state).toBe("lost");
    gateway.status = 200;
    await pass(5_000);
    expect(tab.state).toBe("live");
  });

  test("a silent connection is given up and resumed", async () => {
    const tab = new Tab(hub);
    tab.follow(0);
    await pass();
    await pass(60_000);
    expect(gateway.asked.length).toBeGreaterThan(1);
    gateway.publish(1);
    await pass();
    expect(tab.positions).toEqual([1]);
  });

  test("who is refused is told so, and the stream is not asked for again", async () => {
    gateway.status = 401;
    const tab = new Tab(hub);
    tab.follow(0);
    await pass(30_000);
    expect(tab.state).toBe("refused");
    expect(gateway.asked).toHaveLength(1);
  });

  test("an event that cannot be read hides no other", async () => {
    const tab = new Tab(hub);
    tab.follow(0);
    await pass();
    gateway.say("id: 1\ndata: {not json\n\n");
    gateway.publish(2);
    await pass();
    expect(tab.positions).toEqual([2]);
  });

  test("a reset makes every tab read again", async () => {
    const tab = new Tab(hub);
    tab.follow(0);
    await pass();
    gateway.say('event: reset\nid: 90\ndata: {"reason": "gone"}\n\n');
    await pass();
    expect(tab.heard.some((message) => message.say === "reset")).toBe(true);
  });

  test("a change of the session ends the streams, and the other tabs hear of it", async () => {
    const [here, there] = [new Tab(hub), new Tab(hub)];
    here.follow(0);
    there.follow(0);
    await pass();
    hub.hear(here, { say: "session-changed" });
    await pass();
    expect(gateway.connections).toBe(0);
    expect(there.heard.some((message) => message.say === "session-changed")).toBe(true);
    expect(here.heard.some((message) => message.say === "session-changed")).toBe(false);
  });

  test("a tab that the hub has forgotten is told again from where it was", async () => {
    const tab = new Tab(hub);
    tab.follow(0);
    await pass();
    gateway.publish(1);
    await pass();
    hub.hear(tab, { say: "leave" });
    gateway.publish(2);
    await pass(30_000);
    tab.stillHere(1);
    await pass();
    expect(tab.positions).toEqual([1, 2]);
    expect(tab.state).toBe("live");
  });

  test("tabs outlive the sleep of the machine", async () => {
    const tab = new Tab(hub);
    tab.follow(0);
    await pass();
    vi.setSystemTime(Date.now() + 3_600_000);
    await pass(6_000);
    tab.stillHere(0);
    gateway.publish(1);
    await pass();
    expect(tab.positions).toEqual([1]);
  });

  test("a gateway that answers and says nothing is not asked at once again and again", async () => {
    vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
      void gateway.fetch(url, init);
      return Promise.resolve(new Response(""));
    });
    new Tab(hub).follow(0);
    await pass(60_000);
    expect(gateway.asked.length).toBeLessThan(60);
  });

  test("a stream that nobody follows ends", async () => {
    const tab = new Tab(hub);
    tab.follow(0);
    await pass();
    hub.hear(tab, { say: "leave" });
    await pass(30_000);
    expect(gateway.connections).toBe(0);
  });
});
