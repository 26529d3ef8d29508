/** The shapes that the planner compares for a job: what each costs, and why it is taken or not. */

import { Button } from "@mantine/core";
import { useState } from "react";
import type { ShapeAlternative } from "../api/schema";
import { text } from "../texts";
import { UserText } from "../ui/UserText";
import { bareAmount } from "../ui/format";
import classes from "./Alternatives.module.css";

const FEW = 5;
const TAKEN: readonly ShapeAlternative["verdict"][] = ["chosen", "preferred"];

/** A shape as an explanation or the event of a decision tells it: amounts are texts in one, and numbers in the other. */
interface Compared extends Pick<ShapeAlternative, "shape" | "verdict" | "text"> {
  usd_per_hour: string | number;
  job_usd_per_hour: string | number | null;
}

export function Alternatives({ alternatives }: { alternatives: readonly Compared[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? alternatives : alternatives.slice(0, FEW);
  return (
    <>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{text("job.alternatives.shape")}</th>
            <th scope="col" className="number" title={text("job.alternatives.price_details")}>
              {text("job.alternatives.price")}
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((each) => (
            <tr key={each.shape}>
              <td>
                <span className={classes.shape} data-taken={TAKEN.includes(each.verdict) || undefined}>
                  <UserText>{each.shape}</UserText> · {text(`job.alternatives.verdict.${each.verdict}`)}
                </span>
                {each.text ? (
                  <span className={classes.why}>
                    <UserText>{each.text}</UserText>
                  </span>
                ) : null}
              </td>
              <td className="number">
                {bareAmount(Number(each.usd_per_hour))}
                {each.job_usd_per_hour === null ? null : (
                  <span className={classes.why}>{text("job.alternatives.share", { price: bareAmount(Number(each.job_usd_per_hour)) })}</span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {alternatives.length > FEW ? (
        <Button variant="subtle" onClick={() => setAll(!all)} aria-expanded={all}>
          {all ? text("job.alternatives.fewer") : text("job.alternatives.all", { count: alternatives.length })}
        </Button>
      ) : null}
    </>
  );
}
