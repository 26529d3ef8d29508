/** What happens to each job, what matters first. Of very many the first are named, and the rest counted. */

import { useMemo } from "react";
import { text } from "../../texts";
import { count } from "../../ui/format";
import { Foreign } from "../../ui/Foreign";
import classes from "../jobs.module.css";
import { byImportance, type Act, type Fate } from "./plan";

const MOST_NAMED = 500;

export function FateList({ fates, act, total }: { fates: readonly Fate[]; act: Act; total: number }) {
  const named = useMemo(() => byImportance(fates).slice(0, MOST_NAMED), [fates]);
  return (
    <>
      <ul className={classes.outcomes} tabIndex={0} aria-label={text("jobs.bulk.each")}>
        {named.map((fate) => (
          <li key={fate.target}>
            <Foreign cut>{fate.target}</Foreign>
            <Foreign cut>{fate.name || text("jobs.unnamed")}</Foreign>
            <span>
              {fate.outcome === "will" ? text(`jobs.bulk.will_${act}`) : text(`jobs.bulk.outcome.${fate.outcome}`)}
              {fate.detail ? <Foreign>{` ${fate.detail}`}</Foreign> : null}
            </span>
          </li>
        ))}
      </ul>
      {total > named.length ? <span>{text("jobs.bulk.more", { more: count(total - named.length) })}</span> : null}
    </>
  );
}
