/**
 * Reads that are repeated when something has changed: not at each change, one at a time, and once more for what changed
 * while one was under way. A read that takes longer than the pause between two is never cut off.
 */

export class Readings {
  private timer: ReturnType<typeof setTimeout> | null = null;
  private due = 0;
  private reading = false;
  private again: number | null = null;
  private stopped = false;

  /** `read` reads once. It tells false where it had to take an answer that was asked for earlier. */
  constructor(private readonly read: () => Promise<boolean>) {}

  /** Wants a read within so many milliseconds; the earliest that was wanted counts. */
  within(milliseconds: number): void {
    if (this.stopped) return;
    if (this.reading) {
      this.again = Math.min(this.again ?? milliseconds, milliseconds);
      return;
    }
    const due = Date.now() + milliseconds;
    if (this.timer !== null) {
      if (this.due <= due) return;
      clearTimeout(this.timer);
    }
    this.due = due;
    this.timer = setTimeout(() => void this.run(milliseconds), milliseconds);
  }

  stop(): void {
    this.stopped = true;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  private async run(pause: number): Promise<void> {
    this.timer = null;
    this.reading = true;
    const fresh = await this.read().catch(() => true);
    this.reading = false;
    const wanted = this.again ?? (fresh ? null : pause);
    this.again = null;
    if (wanted !== null) this.within(wanted);
  }
}
