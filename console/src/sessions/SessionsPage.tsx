/** Interactive sessions: jobs that serve a page to the person who started them. */

import { Button, Group, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { profileQuery } from "../api/queries";
import type { SessionDetail } from "../api/schema";
import { text } from "../texts";
import { Confirm } from "../ui/forms/Confirm";
import { DataTable } from "../ui/tables/DataTable";
import { Empty } from "../ui/Empty";
import { UserText } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { sessionColumns } from "./columns";
import { sessionsQuery, stopSession } from "./queries";
import { StartSession } from "./StartSession";
import { useSessions } from "./useSessions";
import { RefreshButton } from "../ui/RefreshButton";

const route = getRouteApi("/c/$cluster/sessions");

export function SessionsPage() {
  const { cluster } = route.useParams();
  const { template } = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const [toStop, setToStop] = useState<SessionDetail | null>(null);
  const role = useQuery(profileQuery).data?.role;
  const { query: sessions, rows, again } = useSessions(cluster);
  const columns = useMemo(() => sessionColumns(cluster, setToStop), [cluster]);
  const choose = (chosen: string | undefined) => void navigate({ search: chosen === undefined ? {} : { template: chosen } });
  const none =
    role === "viewer" ? (
      <Empty title={text("sessions.form.no_right")}>{text("sessions.form.no_right_details")}</Empty>
    ) : (
      <Empty title={text("sessions.none")}>{text("sessions.none_details")}</Empty>
    );
  return (
    <Page
      title={text("app.page.sessions")}
      actions={role === "viewer" ? null : <Button onClick={() => choose("")}>{text("sessions.start")}</Button>}
    >
      {sessions.isError ? <ProblemView error={sessions.error} retry={() => void sessions.refetch()} /> : null}
      <DataTable
        label={text("sessions.list")}
        rows={rows}
        columns={columns}
        rowId={(session) => session.job_id}
        empty={sessions.isSuccess ? none : null}
      />
      <Group gap="xs" mt="xs">
        {sessions.dataUpdatedAt > 0 ? (
          <Text size="xs" c="dimmed">
            {text("sessions.as_of")} <Moment at={new Date(sessions.dataUpdatedAt).toISOString()} />
          </Text>
        ) : null}
        <RefreshButton busy={sessions.isFetching} refresh={() => void again()}>
          {text("sessions.again")}
        </RefreshButton>
      </Group>
      {template === undefined ? null : (
        <StartSession cluster={cluster} template={template} choose={choose} close={() => choose(undefined)} />
      )}
      <Confirm
        opened={toStop !== null}
        close={() => setToStop(null)}
        title={text("sessions.stop_title")}
        verb={text("sessions.stop")}
        act={async () => {
          if (toStop !== null) await stopSession(cluster, toStop.job_id);
          await queries.invalidateQueries(sessionsQuery(cluster));
        }}
      >
        <Text size="sm">
          <UserText>{text("sessions.stop_text", { name: toStop?.name ?? "", job: toStop?.job_id ?? "" })}</UserText>
        </Text>
      </Confirm>
    </Page>
  );
}
