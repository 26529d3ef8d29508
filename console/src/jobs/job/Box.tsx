/** A part of a page beside or below others, with its heading. */

import { useId, type ReactNode } from "react";
import classes from "./job.module.css";

export function Box({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section className={classes.box} aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  );
}
