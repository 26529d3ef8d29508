/** Holds one stream for each cluster that tabs follow, and tells each tab what it has not seen. */

import type { LiveEvent } from "./event";
import type { FromTab, ToTab } from "./messages";
import { ClusterStream } from "./stream";

/**
 * A tab that says nothing for so long is gone: a closed tab need not say so. Browsers let the timers of hidden tabs run
 * once a minute.
 */
const SILENT_TAB_MS = 180_000;
/** A stream that nobody follows is kept for a page that is loaded again. */
const UNUSED_STREAM_MS = 10_000;

export interface Port {
  postMessage(message: ToTab): void;
}

interface Tab {
  port: Port;
  cluster: string | null;
  /** The last position that the tab was told. */
  told: number;
  heard: number;
}

interface Held {
  stream: ClusterStream;
  since: number;
  unusedSince: number | null;
}

export class Hub {
  private readonly tabs = new Map<Port, Tab>();
  private readonly streams = new Map<string, Held>();

  constructor() {
    setInterval(() => this.sweep(), 5_000);
  }

  join(port: Port): void {
    this.tabs.set(port, { port, cluster: null, told: 0, heard: Date.now() });
  }

  hear(port: Port, message: FromTab): void {
    const tab = this.tabs.get(port);
    if (tab === undefined) return;
    tab.heard = Date.now();
    switch (message.say) {
      case "follow":
        this.follow(tab, message.cluster, message.after);
        break;
      case "leave":
        this.tabs.delete(port);
        this.sweep();
        break;
      case "session-changed":
        this.sessionChanged(tab);
        break;
      case "still-here":
        port.postMessage({ say: "here" });
        break;
    }
  }

  private follow(tab: Tab, cluster: string, after: number): void {
    tab.cluster = cluster;
    tab.told = after;
    let held = this.streams.get(cluster);
    const missed = held === undefined || held.stream.current === "refused" ? null : held.stream.after(after);
    if (held === undefined || missed === null) {
      held?.stream.end();
      held = this.open(cluster, after);
    } else {
      this.tell(tab, cluster, missed);
    }
    held.unusedSince = null;
    tab.port.postMessage({ say: "state", cluster, state: held.stream.current, since: held.since });
  }

  private open(cluster: string, after: number): Held {
    const held: Held = {
      since: Date.now(),
      unusedSince: null,
      stream: new ClusterStream(cluster, after, {
        state: (state) => {
          held.since = Date.now();
          for (const tab of this.following(cluster)) {
            tab.port.postMessage({ say: "state", cluster, state, since: held.since });
          }
        },
        events: (events) => {
          for (const tab of this.following(cluster)) this.tell(tab, cluster, events);
        },
        reset: () => {
          for (const tab of this.following(cluster)) tab.port.postMessage({ say: "reset", cluster });
        },
      }),
    };
    this.streams.set(cluster, held);
    return held;
  }

  private tell(tab: Tab, cluster: string, events: LiveEvent[]): void {
    const unseen = events.filter((event) => event.position > tab.told);
    const last = unseen.at(-1);
    if (last === undefined) return;
    tab.told = last.position;
    tab.port.postMessage({ say: "events", cluster, events: unseen });
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
