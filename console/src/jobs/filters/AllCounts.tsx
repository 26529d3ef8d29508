/** How many jobs match by state, of all that there are: shown where the list keeps fewer. */

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { text } from "../../texts";
import { count, date, short } from "../../ui/format";
import { STATE_GROUPS, stateGroup } from "../../ui/jobStates";
import { ProblemView } from "../../ui/ProblemView";
import { countsFilter, type CountsFilter, type Filters } from "./filters";
import { countsQuery } from "../queries";
import { RefreshButton } from "../../ui/RefreshButton";

interface AllProps {
  cluster: string;
  filters: Filters;
  /** From when on the list has ended jobs. */
  since: Date;
}

export function AllCounts({ cluster, filters, since }: AllProps) {
  const filter = useMemo(() => countsFilter(filters, since), [filters, since]);
  return filter === null ? null : <Counted cluster={cluster} filter={filter} states={filters.states} />;
}

interface Props {
  cluster: string;
  filter: CountsFilter;
  states: Filters["states"];
}

function Counted({ cluster, filter, states }: Props) {
  const counts = useQuery(countsQuery(cluster, filter));
  if (counts.isError) return <ProblemView error={counts.error} retry={() => void counts.refetch()} />;
  if (counts.data === undefined) return <span>{text("ui.loading")}</span>;
  const groups = (states ?? STATE_GROUPS).map((group) => {
    const number = Object.entries(counts.data.states).reduce((sum, [state, of]) => (stateGroup(state) === group ? sum + of : sum), 0);
    return { group, number };
  });
  return (
    <>
      <span>
        {text("jobs.counts.all", {
          counts: groups
            .filter(({ number }) => number > 0)
            .map(({ group, number }) => text("jobs.counts.of_state", { shown: count(number), state: text(`ui.states.${group}`) }))
            .join(" · "),
          since: date(new Date(filter.submitted_after ?? 0)),
          time: short(new Date(counts.dataUpdatedAt)),
        })}
      </span>
      {/* Events tell of single jobs, which are not counted here. */}
      <RefreshButton busy={counts.isFetching} refresh={() => void counts.refetch()}>
        {text("jobs.counts.again")}
      </RefreshButton>
    </>
  );
}
