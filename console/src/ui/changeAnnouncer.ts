/** When changes of one thing are said, so that many of them are few messages. Knows nothing of components. */

/** The least time between two messages about one thing. */
export const PAUSE_MS = 10_000;

/** Says a message when it has changed: one that matters at once, others at most every ten seconds. The first one is not said. */
export class ChangeAnnouncer {
  private said: string | null = null;
  private saidAt = Number.NEGATIVE_INFINITY;
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly say: (message: string) => void) {}

  /** What is so now. */
  tell(message: string, atOnce: boolean): void {
    this.stop();
    this.said ??= message;
    if (message === this.said) return;
    const rest = atOnce ? 0 : this.saidAt + PAUSE_MS - Date.now();
    if (rest <= 0) this.now(message);
    else this.timer = setTimeout(() => this.now(message), rest);
  }

  /** Says nothing more until it is told again. */
  stop(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  private now(message: string): void {
    this.said = message;
    this.saidAt = Date.now();
    this.say(message);
  }
}
