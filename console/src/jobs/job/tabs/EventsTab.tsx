/** What happened to a job and who did it, the newest first. */

import { useMemo } from "react";
import { activityColumns } from "../../../activity/columns";
import { rowOf } from "../../../activity/rows";
import { eventRecord } from "../../../live/event";
import { text } from "../../../texts";
import { DataTable } from "../../../ui/tables/DataTable";
import { Empty } from "../../../ui/Empty";
import { ProblemView } from "../../../ui/ProblemView";
import { useJobEvents } from "../useJob";

const COLUMNS = ["when", "what", "who", "details"];

export function EventsTab({ cluster, job }: { cluster: string; job: string }) {
  const events = useJobEvents(cluster, job);
  const columns = useMemo(() => activityColumns(cluster), [cluster]);
  const rows = useMemo(
    () => (events.data?.events ?? []).map(eventRecord).filter((event) => event !== null).map(rowOf),
    [events.data],
  );
  if (events.isError) return <ProblemView error={events.error} retry={() => void events.refetch()} />;
  return (
    <DataTable
      label={text("job.tab.events")}
      rows={rows}
      columns={columns}
      shown={COLUMNS}
      rowId={(row) => row.id}
      empty={events.isSuccess ? <Empty title={text("job.events.none")} /> : null}
    />
  );
}
