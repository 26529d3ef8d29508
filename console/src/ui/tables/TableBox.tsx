/** The place of a table below other content: as high as its rows, and no higher than half of the window. */

import type { ReactNode } from "react";
import classes from "./TableBox.module.css";

/** The heads and a footer. */
const OTHER_ROWS = 3;

interface Props {
  /** How many rows there are; none leaves room for what is said in their place. */
  rows: number;
  children: ReactNode;
}

export function TableBox({ rows, children }: Props) {
  return (
    <div className={classes.box} data-empty={rows === 0} style={{ height: `calc(${rows + OTHER_ROWS} * var(--row-height))` }}>
      {children}
    </div>
  );
}
