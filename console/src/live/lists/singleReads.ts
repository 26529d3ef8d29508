/**
 * Reads single records of a list, each the record of a job, of which events tell too little, such as new ones. A job that
 * is wanted twice is read once; one that is wanted while it is read is read again after that, because the answer under way
 * may be older than what it is wanted for. At most four are read at once and ten a second; where more are wanted than the
 * queue holds, one page of the list is read instead.
 */

export interface Source {
  /** Reads one job, and puts it where it belongs. */
  one: (jobId: string, signal: AbortSignal) => Promise<void>;
  /** Reads the newest jobs at once. */
  many: (signal: AbortSignal) => Promise<void>;
}

const AT_ONCE = 4;
const INTERVAL_MS = 100;
const MOST_WAITING = 100;

export class SingleReads {
  private readonly waiting = new Set<string>();
  /** The jobs that are read now; null stands for a page. */
  private readonly flying = new Set<string | null>();
  private timer: ReturnType<typeof setTimeout> | null = null;
  private overflowed = false;
  private readonly ended = new AbortController();

  constructor(private readonly source: Source) {}

  want(jobId: string): void {
    if (this.overflowed || this.ended.signal.aborted) return;
    this.waiting.add(jobId);
    if (this.waiting.size > MOST_WAITING) {
      this.waiting.clear();
      this.overflowed = true;
    }
    this.schedule();
  }

  end(): void {
    this.ended.abort();
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private schedule(): void {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.next();
    }, this.overflowed ? 10 * INTERVAL_MS : INTERVAL_MS);
  }

  private next(): void {
    if (this.ended.signal.aborted || this.flying.size >= AT_ONCE) return;
    if (this.overflowed) {
      // One page at a time: the end of that under way asks for the next.
      if (this.flying.has(null)) return;
      this.overflowed = false;
      this.fly(null, this.source.many(this.ended.signal));
    } else {
      const jobId = [...this.waiting].find((each) => !this.flying.has(each));
      if (jobId === undefined) return;
      this.waiting.delete(jobId);
      this.fly(jobId, this.source.one(jobId, this.ended.signal));
    }
    if (this.waiting.size > 0) this.schedule();
  }

  private fly(what: string | null, read: Promise<void>): void {
    this.flying.add(what);
    void read
      // What a row lacks is no error of the page; the next event of the job asks again.
      .catch(() => undefined)
      .finally(() => {
        this.flying.delete(what);
        if (this.waiting.size > 0 || this.overflowed) this.schedule();
      });
  }
}
