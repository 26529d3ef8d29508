/**
 * A tab's end of the stream. It follows one cluster, remembers the newest events for lists that are older than they are,
 * and tells those who listen. Where there is no SharedWorker the tab holds the stream itself.
 */

import type { LiveEvent } from "./event";
import { Hub, type Port } from "./hub";
import type { FromTab, LiveState, ToTab } from "./messages";

const REMEMBERED = 5_000;
const STILL_HERE_MS = 20_000;

export interface Status {
  state: LiveState;
  /** Since when, in milliseconds of `Date.now()`. */
  since: number;
}

type Listener = (events: LiveEvent[]) => void;

export class Feed {
  private readonly listeners = new Set<Listener>();
  private readonly resets = new Set<() => void>();
  private readonly watchers = new Set<() => void>();
  private remembered: LiveEvent[] = [];
  private from = 0;
  private cluster: string | null = null;
  private readonly send: (message: FromTab) => void;
  /** Called when the person signed in or out in another tab. */
  onSessionChanged: () => void = () => undefined;
  status: Status = { state: "connecting", since: Date.now() };

  constructor() {
    this.send = connection((message) => this.hear(message));
    setInterval(() => this.send({ say: "still-here" }), STILL_HERE_MS);
    window.addEventListener("pagehide", (event: PageTransitionEvent) => {
      if (!event.persisted) this.send({ say: "leave" });
    });
  }

  /**
   * Sees to it that the events of a cluster after `position` come, and returns those that are here already. Called with
   * the position of each list that was read.
   */
  follow(cluster: string, position: number): LiveEvent[] {
    if (cluster !== this.cluster || position < this.from) {
      this.cluster = cluster;
      this.remembered = [];
      this.from = position;
      this.send({ say: "follow", cluster, after: position });
      return [];
    }
    return this.remembered.filter((event) => event.position > position);
  }

  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Called when some events were not told, so that what was read must be read again. */
  onReset(listener: () => void): () => void {
    this.resets.add(listener);
    return () => this.resets.delete(listener);
  }

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  /** The person signed in or out here: all tabs go along. */
  sessionChanged(): void {
    this.cluster = null;
    this.send({ say: "session-changed" });
  }

  private hear(message: ToTab): void {
    if (message.say === "session-changed") {
      this.cluster = null;
      this.onSessionChanged();
      return;
    }
    if (message.cluster !== this.cluster) return;
    switch (message.say) {
      case "state":
        this.status = { state: message.state, since: message.since };
        for (const watcher of this.watchers) watcher();
        break;
      case "reset":
        // The lists that are read again say where they are.
        this.cluster = null;
        for (const listener of this.resets) listener();
        break;
      case "events":
        this.remembered.push(...message.events);
        if (this.remembered.length > 2 * REMEMBERED) {
          this.remembered = this.remembered.slice(-REMEMBERED);
          this.from = (this.remembered[0]?.position ?? 1) - 1;
        }
        for (const listener of this.listeners) listener(message.events);
        break;
    }
  }
}

/** Connects to the worker of all tabs, or to a hub of this tab alone. Returns how to speak to it. */
function connection(hear: (message: ToTab) => void): (message: FromTab) => void {
  if (typeof SharedWorker === "undefined") {
    const hub = new Hub();
    const port: Port = { postMessage: hear };
    hub.join(port);
    return (message) => hub.hear(port, message);
  }
  const worker = new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module", name: "clusterra-live" });
  worker.port.addEventListener("message", (message: MessageEvent<ToTab>) => hear(message.data));
  worker.port.start();
  return (message) => worker.port.postMessage(message);
}
