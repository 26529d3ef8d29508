/** The output that a link shows: read when the page is, and not followed. */

import { lazy, Suspense, useMemo } from "react";
import type { OutputChoice } from "../jobs/output/OutputView";
import classes from "./shared_links.module.css";
import { sharedOutput } from "./sharedJob";

const OutputView = lazy(() => import("../jobs/output/OutputView").then(({ OutputView: component }) => ({ default: component })));

interface Props {
  token: string;
  choice: OutputChoice;
  choose: (to: Partial<OutputChoice>) => void;
}

export function SharedOutput({ token, choice, choose }: Props) {
  const source = useMemo(() => sharedOutput(token, choice.stream), [token, choice.stream]);
  return (
    <Suspense fallback={<div className={classes.skeleton} />}>
      <OutputView source={source} running={false} hasErrors choice={choice} choose={choose} />
    </Suspense>
  );
}
