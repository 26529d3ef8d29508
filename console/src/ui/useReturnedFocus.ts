/**
 * Gives the focus back when a dialog goes away with its component. Mantine's own return of the focus needs a dialog that
 * stays mounted.
 */

import { useEffect, useState } from "react";
import { focusHeading } from "./pageFocus";

export function useReturnedFocus(): void {
  const [opener] = useState(openerNow);
  useEffect(
    () => () => {
      // Once the dialog is out of the page: what it had in focus is gone then.
      setTimeout(() => {
        if (document.activeElement !== null && document.activeElement !== document.body) return;
        if (opener?.isConnected) opener.focus({ preventScroll: true });
        else focusHeading();
      });
    },
    [opener],
  );
}

/** What has the focus; of an item of a menu, which goes away, what opened the menu. */
function openerNow(): HTMLElement | null {
  const active = document.activeElement;
  const menu = active?.closest('[role="menu"]')?.getAttribute("aria-labelledby");
  const found = menu ? document.getElementById(menu) : active;
  return found instanceof HTMLElement && found !== document.body ? found : null;
}
