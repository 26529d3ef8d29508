/**
 * Keeps the focus on the page after a button was pressed that goes away, or that cannot be pressed while it works: it goes
 * to the button again or, where there is none any more, to the heading of the page. A `RefreshButton` needs none of it.
 */

import { useEffect, useRef, type RefObject } from "react";
import { focusHeading } from "./pageFocus";

/** For the element around the buttons, which is drawn by the component that calls this. */
export function useKeptFocus<Around extends HTMLElement>(): RefObject<Around | null> {
  const around = useRef<Around>(null);
  const pressed = useRef<HTMLElement | null>(null);
  useEffect(() => {
    // Whatever the person does next elsewhere takes the focus itself. A dialog of the button gives it back.
    const followed = ({ target }: Event) => {
      if (!(target instanceof Element) || target.closest('[role="dialog"]') !== null) return;
      pressed.current = around.current?.contains(target) ? target.closest("button") : null;
    };
    for (const kind of EVENTS) document.addEventListener(kind, followed, true);
    return () => {
      for (const kind of EVENTS) document.removeEventListener(kind, followed, true);
    };
  }, []);
  useEffect(() => {
    const button = pressed.current;
    if (button === null || document.activeElement !== document.body) return;
    if (!button.isConnected) {
      pressed.current = null;
      focusHeading();
    } else button.focus({ preventScroll: true });
  });
  return around;
}

const EVENTS = ["pointerdown", "focusin"] as const;
