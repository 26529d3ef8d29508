/** Figures with their names, side by side. Until one is known its place is kept. */

import { SimpleGrid } from "@mantine/core";
import type { ReactNode } from "react";
import { text } from "../texts";
import classes from "./Figures.module.css";

export function Figures({ label, children }: { label: string; children: ReactNode }) {
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="md" mb="md" component="dl" aria-label={label} className={classes.figures}>
      {children}
    </SimpleGrid>
  );
}

interface FigureProps {
  label: string;
  /** Undefined while it is read; null where it is not known, which is said. */
  value: ReactNode;
  /** A quiet line below it. */
  note?: ReactNode;
}

export function Figure({ label, value, note }: FigureProps) {
  return (
    <div>
      <dt className={classes.label}>{label}</dt>
      <dd className={classes.value}>
        {value === undefined ? <span className={classes.skeleton} role="img" aria-label={text("ui.loading")} /> : (value ?? text("ui.figures.unknown"))}
      </dd>
      {note ? <dd className={classes.note}>{note}</dd> : null}
    </div>
  );
}
