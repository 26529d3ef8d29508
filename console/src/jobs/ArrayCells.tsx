/** An array in the list: its name opens it in place, and its tasks are counted by state. */

import { text } from "../texts";
import { count } from "../ui/format";
import { UserText, visible } from "../ui/UserText";
import { RowLink } from "../ui/tables/RowLink";
import { jobAddress } from "./address";
import classes from "./jobs.module.css";
import { countText } from "./arrayCounts";
import { countsOf, type ArrayRow, type Counts } from "./rows";

interface NameProps {
  row: ArrayRow;
  cluster: string;
  toggle?: (array: string) => void;
}

export function ArrayName({ row, cluster, toggle }: NameProps) {
  const name = visible(row.job.name || text("jobs.unnamed"));
  return (
    <span className={classes.array}>
      {toggle ? (
        <button
          type="button"
          className={classes.toggle}
          aria-expanded={row.opened}
          aria-label={text("jobs.array.toggle", { name, number: row.id, count: row.total })}
          onClick={() => toggle(row.id)}
        >
          <span aria-hidden>{row.opened ? "▾" : "▸"}</span>
        </button>
      ) : null}
      <RowLink href={jobAddress(cluster, row.id)} className={classes.name}>
        <UserText cut>{row.job.name || text("jobs.unnamed")}</UserText>
      </RowLink>
      <span className={classes.quiet}>{text(row.whole > row.total ? "jobs.array.some_tasks" : "jobs.array.tasks", { count: row.whole, shown: count(row.total), whole: count(row.whole) })}</span>
    </span>
  );
}

export function ArrayCounts({ counts }: { counts: Counts }) {
  return (
    <span className={classes.counts}>
      {countsOf(counts).map(([group, number]) => (
        <span key={group} data-state={group} className={classes.count}>
          {countText(group, number)}
        </span>
      ))}
    </span>
  );
}
