/** Copies a text, and says whether it did, in the button and to screen readers: a browser may refuse it. */

import { Button, VisuallyHidden } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import type { ReactNode } from "react";
import { text } from "../texts";

interface Props {
  value: string;
  /** In place of "Copy". */
  label?: string;
  /** The name of the button where its label does not say what is copied. */
  name?: string;
  variant?: "default" | "filled";
  /** What stands behind the label. */
  children?: ReactNode;
}

export function CopyButton({ value, label = text("ui.copy"), name, variant = "default", children }: Props) {
  const { copy, copied, error } = useClipboard();
  const failed = error !== null;
  return (
    <>
      <Button variant={variant} onClick={() => copy(value)} {...(name === undefined ? {} : { "aria-label": name })}>
        {copied ? text("ui.copied") : failed ? text("ui.not_copied") : label}
        {" "}
        {children}
      </Button>
      <VisuallyHidden role="status">{copied ? text("ui.copied") : failed ? text("ui.not_copied_details") : ""}</VisuallyHidden>
    </>
  );
}
