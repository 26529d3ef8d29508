/** Where the focus goes when another page is shown: to its heading, so that a reader says where one is. */

interface Heading {
  isConnected: boolean;
  focus: (options: { preventScroll: boolean }) => void;
}

export class PageFocus {
  private path: string | null = null;
  private heading: Heading | null = null;

  /** A page is shown at a path. The first one of a visit takes no focus: browsers begin at the top of the document. */
  shown(path: string, heading: Heading, focusLost: boolean): void {
    const another = this.path !== null && this.path !== path;
    // Its heading was drawn anew, with the focus on the one before.
    const anew = this.path === path && this.heading !== null && !this.heading.isConnected && focusLost;
    this.path = path;
    if (!another && !anew) return;
    this.heading = heading;
    heading.focus({ preventScroll: true });
  }
}

export const pageFocus = new PageFocus();

/** For what has nowhere else to give the focus to. */
export function focusHeading(): void {
  const heading = document.querySelector<HTMLElement>("main h1") ?? document.querySelector<HTMLElement>("main");
  heading?.focus({ preventScroll: true });
}
