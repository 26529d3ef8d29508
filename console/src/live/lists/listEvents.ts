/**
 * Decides which events a list lacks, by the position that it was read at, and which of them require another read. An
 * event at or before the position does nothing. A later one is taken as it comes, and once more after each reading that
 * may be older than it. It knows nothing of components or of the feed.
 */

import type { LiveEvent } from "../event";

/** Changes what was read by events, and returns those of them that tell too little: the list is read again for these. */
export type TakeEvents = (events: readonly LiveEvent[]) => readonly LiveEvent[];

export class ListEvents {
  /** Of what was read last; undefined before, null where it has none. */
  private position: number | null | undefined;
  /** The last event for which a reading was asked. */
  private asked = 0;
  /** Whether events came since the last reading. */
  private heard = false;
  /** Whether some may be missing of which nobody knows. */
  private gap = false;

  /** `again` asks for one more reading soon; readings that are asked for before it begins are one. */
  constructor(
    private readonly take: TakeEvents,
    private readonly again: () => void,
  ) {}

  /** The list was read. `known` are the events after its position that came already, in their order. */
  read(position: number | null, known: readonly LiveEvent[]): void {
    // Without a position nobody knows whether the list has what came while it was read.
    this.gap = position === null && this.heard;
    this.position = position;
    this.heard = false;
    if (this.gap) this.again();
    if (position !== null) this.apply(known);
  }

  /** Events came. Those before the first reading are told again after it. */
  told(events: readonly LiveEvent[]): void {
    this.heard = true;
    if (this.position !== undefined) this.apply(events);
  }

  /** Some events are not told. Those that come may have lower positions than those before. */
  lost(): void {
    this.asked = 0;
    this.gap = true;
    this.again();
  }

  /** Whether a reading that was asked for is still of use: another one may have come first. */
  get due(): boolean {
    return this.gap || this.asked > (this.position ?? 0);
  }

  private apply(events: readonly LiveEvent[]): void {
    const after = this.position ?? 0;
    const lacking = events.filter(({ position }) => position > after);
    if (lacking.length === 0) return;
    const last = Math.max(0, ...this.take(lacking).map(({ position }) => position));
    // A reading that was asked for once begins after the event, however often the event is told.
    if (last <= this.asked) return;
    this.asked = last;
    this.again();
  }
}
