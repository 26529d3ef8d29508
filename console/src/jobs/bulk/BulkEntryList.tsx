/** What happens to each job, what matters first. Of very many the first are named, and the rest counted. */

import { useMemo } from "react";
import { text } from "../../texts";
import { count } from "../../ui/format";
import { UserText } from "../../ui/UserText";
import classes from "../jobs.module.css";
import { byImportance, type Action, type BulkEntry } from "./plan";

const MOST_NAMED = 500;

export function BulkEntryList({ entries, act, total }: { entries: readonly BulkEntry[]; act: Action; total: number }) {
  const named = useMemo(() => byImportance(entries).slice(0, MOST_NAMED), [entries]);
  return (
    <>
      <ul className={classes.outcomes} tabIndex={0} aria-label={text("jobs.bulk.each")}>
        {named.map((entry) => (
          <li key={entry.target}>
            <UserText cut>{entry.target}</UserText>
            <UserText cut>{entry.name || text("jobs.unnamed")}</UserText>
            <span>
              {entry.outcome === "will" ? text(`jobs.bulk.will_${act}`) : text(`jobs.bulk.outcome.${entry.outcome}`)}
              {entry.detail ? <UserText>{` ${entry.detail}`}</UserText> : null}
            </span>
          </li>
        ))}
      </ul>
      {total > named.length ? <span>{text("jobs.bulk.more", { more: count(total - named.length) })}</span> : null}
    </>
  );
}
