/**
 * A tab's end of the stream. It follows one cluster, remembers the newest events for lists that are older than they are,
 * and tells those who listen. Where there is no SharedWorker the tab holds the stream itself.
 */

import type { LiveEvent } from "./event";
import { Hub, type Port } from "./hub";
import type { Following, FromTab, LiveState, ToTab } from "./messages";

const REMEMBERED = 5_000;
const STILL_HERE_MS = 20_000;
/** A worker that does not answer for so long has died, for whatever reason. */
const ANSWER_MS = 5_000;

export interface Status {
  state: LiveState;
  /** When the stream last said something, in milliseconds of `Date.now()`: what is shown is right as of then. */
  heard: number;
}

type Listener = (events: LiveEvent[]) => void;

export class Feed {
  private readonly listeners = new Set<Listener>();
  private readonly resets = new Set<() => void>();
  private readonly watchers = new Set<() => void>();
  private remembered: LiveEvent[] = [];
  /** Everything that was told behind this position is remembered. */
  private from = 0;
  private following: Following | null = null;
  private turn = 0;
  private worker: Connection;
  private unanswered: ReturnType<typeof setTimeout> | null = null;
  /** Called when the person signed in or out in another tab. */
  onSessionChanged: () => void = () => undefined;
  status: Status = { state: "connecting", heard: Date.now() };

  constructor() {
    this.worker = connection((message) => this.hear(message));
    setInterval(() => this.stillHere(), STILL_HERE_MS);
    window.addEventListener("pagehide", (event: PageTransitionEvent) => {
      if (!event.persisted) this.worker.send({ say: "leave" });
    });
  }

  /**
   * Sees to it that the events of a cluster behind `position` come, and returns those that are here already. Called with
   * the position of each list that was read.
   */
  follow(cluster: string, position: number): LiveEvent[] {
    if (this.following === null || cluster !== this.following.cluster || position < this.from) {
      this.begin(cluster, position);
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
    this.following = null;
    this.worker.send({ say: "session-changed" });
  }

  private begin(cluster: string, after: number): void {
    this.turn += 1;
    this.following = { turn: this.turn, cluster, after };
    this.remembered = [];
    this.from = after;
    this.ask({ say: "follow", ...this.following });
  }

  private stillHere(): void {
    const told = this.remembered.at(-1)?.position ?? this.from;
    this.ask({ say: "still-here", following: this.following === null ? null : { ...this.following, after: told } });
  }

  /** Says what the worker answers. Where it does not, another one takes its place and goes on from here. */
  private ask(message: FromTab): void {
    // Before it is said: a hub of this tab answers at once.
    this.unanswered ??= setTimeout(() => {
      this.unanswered = null;
      this.worker.close();
      this.worker = connection((told) => this.hear(told));
      this.become({ state: "connecting", heard: this.status.heard });
      this.stillHere();
    }, ANSWER_MS);
    this.worker.send(message);
  }

  private become(status: Status): void {
    this.status = status;
    for (const watcher of this.watchers) watcher();
  }

  private hear(message: ToTab): void {
    if (this.unanswered !== null) clearTimeout(this.unanswered);
    this.unanswered = null;
    switch (message.say) {
      case "here":
        break;
      case "session-changed":
        this.following = null;
        this.onSessionChanged();
        break;
      case "state":
        if (message.turn !== this.following?.turn) break;
        // Whoever is let in again follows again.
        if (message.state === "refused") this.following = null;
        if (message.state !== this.status.state || message.heard !== this.status.heard) {
          this.become({ state: message.state, heard: message.heard });
        }
        break;
      case "reset":
        if (message.turn !== this.following?.turn) break;
        this.remembered = [];
        this.from = message.position;
        for (const listener of this.resets) listener();
        break;
      case "events":
        if (message.turn === this.following?.turn) this.take(message.events);
        break;
    }
  }

  private take(events: LiveEvent[]): void {
    this.remembered.push(...events);
    if (this.remembered.length > 2 * REMEMBERED) {
      this.remembered = this.remembered.slice(-REMEMBERED);
      this.from = (this.remembered[0]?.position ?? 1) - 1;
    }
    for (const listener of this.listeners) listener(events);
  }
}

interface Connection {
  send: (message: FromTab) => void;
  close: () => void;
}

/** Connects to the worker of all tabs, or to a hub of this tab alone. */
function connection(hear: (message: ToTab) => void): Connection {
  if (typeof SharedWorker === "undefined") {
    const hub = new Hub();
    const port: Port = { postMessage: hear };
    hub.join(port);
    return { send: (message) => hub.hear(port, message), close: () => hub.hear(port, { say: "leave" }) };
  }
  const { port } = new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module", name: "clusterra-live" });
  port.addEventListener("message", (message: MessageEvent<ToTab>) => hear(message.data));
  port.start();
  return { send: (message) => port.postMessage(message), close: () => port.close() };
}
