/** A button that reads something again. While it reads it cannot be pressed, and keeps the focus: a disabled one loses it. */

import { Button } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  busy: boolean;
  refresh: () => void;
  children: ReactNode;
  variant?: "default" | "subtle";
  size?: "xs";
}

export function RefreshButton({ busy, refresh, children, variant = "default", size }: Props) {
  return (
    <Button
      variant={variant}
      {...(size === undefined ? {} : { size })}
      aria-disabled={busy}
      data-disabled={busy}
      onClick={() => {
        if (!busy) refresh();
      }}
    >
      {children}
    </Button>
  );
}
