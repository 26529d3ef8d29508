/** Holds one stream for each cluster that tabs follow, and tells each tab what it has not seen. */

import type { LiveEvent } from "./event";
import type { Following, FromTab, ToTab } from "./messages";
import { ClusterStream } from "./stream";

/**
 * A tab that says nothing for so long is gone: a closed tab need not say so. Browsers let the timers of hidden tabs run
 * once a minute.
 */
const SILENT_TAB_MS = 180_000;
/** A stream that nobody follows is kept for a page that is loaded again. */
const UNUSED_STREAM_MS = 10_000;
const SWEEP_MS = 5_000;

export interface Port {
  postMessage(message: ToTab): void;
}

interface Tab {
  port: Port;
  turn: number;
  cluster: string | null;
  /** The last position that the tab was told. */
  told: number;
  heard: number;
}

interface Held {
  stream: ClusterStream;
  unusedSince: number | null;
}

export class Hub {
  private readonly tabs = new Map<Port, Tab>();
  private readonly streams = new Map<string, Held>();
  private swept = Date.now();

  constructor() {
    setInterval(() => this.sweep(), SWEEP_MS);
  }

  join(port: Port): Tab {
    const tab: Tab = { port, turn: 0, cluster: null, told: 0, heard: Date.now() };
    this.tabs.set(port, tab);
    return tab;
  }

  hear(port: Port, message: FromTab): void {
    const tab = this.tabs.get(port) ?? this.join(port);
    tab.heard = Date.now();
    switch (message.say) {
      case "follow":
        this.follow(tab, message);
        break;
      case "leave":
        this.tabs.delete(port);
        break;
      case "session-changed":
        this.sessionChanged(tab);
        break;
      case "still-here":
        this.answer(tab, message.following);
        break;
    }
  }

  private answer(tab: Tab, following: Following | null): void {
    const held = tab.cluster === null ? undefined : this.streams.get(tab.cluster);
    if (following === null) tab.port.postMessage({ say: "here" });
    else if (held === undefined || tab.turn !== following.turn) this.follow(tab, following);
    else tellState(tab, held);
  }

  private follow(tab: Tab, { turn, cluster, after }: Following): void {
    tab.turn = turn;
    tab.cluster = cluster;
    tab.told = after;
    let held = this.streams.get(cluster);
    const missed = held === undefined || held.stream.current === "refused" ? null : held.stream.after(after);
    if (held === undefined || missed === null) {
      held?.stream.end();
      held = this.open(cluster, after);
    } else {
      tell(tab, missed);
    }
    held.unusedSince = null;
    tellState(tab, held);
  }

  private open(cluster: string, after: number): Held {
    const held: Held = {
      unusedSince: null,
      stream: new ClusterStream(cluster, after, {
        state: () => {
          for (const tab of this.following(cluster)) tellState(tab, held);
        },
        events: (events) => {
          for (const tab of this.following(cluster)) tell(tab, events);
        },
        reset: (position) => {
          for (const tab of this.following(cluster)) {
            tab.told = position;
            tab.port.postMessage({ say: "reset", turn: tab.turn, position });
          }
        },
      }),
    };
    this.streams.set(cluster, held);
    return held;
  }

  private sessionChanged(by: Tab): void {
    for (const held of this.streams.values()) held.stream.end();
    this.streams.clear();
    for (const tab of this.tabs.values()) {
      tab.cluster = null;
      if (tab !== by) tab.port.postMessage({ say: "session-changed" });
    }
  }

  private following(cluster: string): Tab[] {
    return [...this.tabs.values()].filter((tab) => tab.cluster === cluster);
  }

  private sweep(): void {
    const now = Date.now();
    const slept = now - this.swept > 3 * SWEEP_MS;
    this.swept = now;
    // After the machine slept every tab was silent for long, and will say so soon.
    if (slept) return;
    for (const [port, tab] of this.tabs) if (now - tab.heard > SILENT_TAB_MS) this.tabs.delete(port);
    for (const [cluster, held] of this.streams) {
      if (this.following(cluster).length > 0) held.unusedSince = null;
      else if (held.unusedSince === null) held.unusedSince = now;
      else if (now - held.unusedSince > UNUSED_STREAM_MS) {
        held.stream.end();
        this.streams.delete(cluster);
      }
    }
  }
}

function tell(tab: Tab, events: readonly LiveEvent[]): void {
  const unseen = events.filter((event) => event.position > tab.told);
  const last = unseen.at(-1);
  if (last === undefined) return;
  tab.told = last.position;
  tab.port.postMessage({ say: "events", turn: tab.turn, events: unseen });
}

function tellState(tab: Tab, { stream }: Held): void {
  tab.port.postMessage({ say: "state", turn: tab.turn, state: stream.current, heard: stream.heard });
}
