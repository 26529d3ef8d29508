/** Opens the palette, by a button and by Ctrl-K. The palette is loaded when it is first opened. */

import { Kbd, UnstyledButton } from "@mantine/core";
import { Search } from "lucide-react";
import { Suspense, useEffect, useState } from "react";
import { text } from "../../texts";
import classes from "../shell/Bar.module.css";
import { Palette } from "../dialogs";
import { COMMAND } from "../keys";

export function PaletteButton({ cluster }: { cluster: string }) {
  const [opened, setOpened] = useState(false);
  const [wanted, setWanted] = useState(false);
  const open = () => {
    setWanted(true);
    setOpened(true);
  };
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || event.altKey || event.shiftKey || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setWanted(true);
      setOpened((before) => !before);
    };
    document.addEventListener("keydown", pressed, { capture: true });
    return () => document.removeEventListener("keydown", pressed, { capture: true });
  }, []);
  return (
    <>
      <UnstyledButton className={classes.palette} onClick={open} aria-haspopup="dialog" aria-keyshortcuts="Control+K Meta+K">
        <Search size={14} aria-hidden />
        <span>{text("app.palette.open")}</span>
        <Kbd size="xs" aria-hidden>
          {COMMAND} K
        </Kbd>
      </UnstyledButton>
      {wanted ? (
        <Suspense fallback={null}>
          <Palette cluster={cluster} opened={opened} close={() => setOpened(false)} />
        </Suspense>
      ) : null}
    </>
  );
}
