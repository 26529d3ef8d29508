/** Who did what in the cluster, with filters in the address and an export of what is shown. */

import { Button, Group, Select, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { NO_CLUSTER } from "../../app/rootRoute";
import { text } from "../../texts";
import { DataTable, type Column } from "../../ui/tables/DataTable";
import { DateField } from "../../ui/forms/DateField";
import { Empty } from "../../ui/Empty";
import { UserText } from "../../ui/UserText";
import { count, zone } from "../../ui/format";
import { Moment } from "../../ui/Moment";
import { ProblemView } from "../../ui/ProblemView";
import { RefreshBar } from "../RefreshBar";
import { invitationsQuery } from "../queries";
import { actionChoices } from "./actions";
import { auditQuery, dayBefore, exported, filtered, jobOf, named, type AuditEntry, type Shown } from "./audit";

const route = getRouteApi("/c/$cluster/admin/$section");
const DAYS = 7;

export function AuditSection() {
  const { cluster } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const from = search.from ?? dayBefore(DAYS - 1);
  const to = search.to ?? dayBefore(0);
  const audit = useQuery({ ...auditQuery(cluster, from, to), enabled: cluster !== NO_CLUSTER });
  const invitations = useQuery(invitationsQuery).data?.invitations;
  // What only the page knows is not searched for: the export would not find it.
  const rows = useMemo(
    () => named(filtered(audit.data?.entries ?? [], search.action, search.find), invitations ?? []),
    [audit.data, search.action, search.find, invitations],
  );
  const actions = useMemo(() => {
    const { groups, single } = actionChoices(audit.data?.entries ?? [], search.action);
    return [{ group: text("people.audit.groups"), items: groups }, ...(single.length > 0 ? [{ group: text("people.audit.single"), items: single }] : [])];
  }, [audit.data, search.action]);
  const columns = useMemo(() => auditColumns(cluster), [cluster]);
  if (cluster === NO_CLUSTER) return <Empty title={text("people.audit.no_cluster")} />;
  const choose = (change: Partial<typeof search>) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  return (
    <>
      <Group gap="xs" mb="xs" align="end">
        <DateField type="date" label={text("ui.period.from", { zone: zone() })} value={from} max={to} apply={(day) => choose({ from: day || undefined })} />
        <DateField type="date" label={text("ui.period.until", { zone: zone() })} value={to} min={from} apply={(day) => choose({ to: day || undefined })} />
        <Select
          label={text("people.audit.action")}
          data={actions}
          value={search.action ?? null}
          placeholder={text("people.audit.any")}
          clearable
          searchable
          allowDeselect
          onChange={(chosen) => choose({ action: chosen ?? undefined })}
        />
        <TextInput
          type="search"
          label={text("people.audit.find")}
          placeholder={text("people.audit.find_hint")}
          miw={240}
          value={search.find ?? ""}
          maxLength={200}
          onChange={(event) => choose({ find: event.currentTarget.value || undefined })}
        />
        <Export cluster={cluster} shown={{ from, to, action: search.action, find: search.find }} />
      </Group>
      <RefreshBar query={audit} />
      {audit.isError ? <ProblemView error={audit.error} retry={() => void audit.refetch()} /> : null}
      <DataTable
        label={text("people.section.audit")}
        rows={rows}
        columns={columns}
        rowId={({ event_id, action, time }) => `${event_id} ${action} ${time}`}
        empty={audit.isSuccess ? <Empty title={text("people.audit.none")}>{text("people.audit.none_details")}</Empty> : null}
      />
      <Text size="sm" c="dimmed" mt={4} role="status">
        {audit.isSuccess ? text("ui.table.rows", { shown: count(rows.length), total: count(audit.data.entries.length) }) : ""}
        {audit.data?.cut ? ` · ${text("people.audit.cut")}` : ""}
        {audit.data && audit.data.unreadable > 0 ? ` · ${text("people.audit.unreadable", { count: audit.data.unreadable })}` : ""}
      </Text>
    </>
  );
}

function auditColumns(cluster: string): Column<AuditEntry>[] {
  return [
    { id: "time", head: text("people.audit.time"), width: "110px", cell: ({ time }) => <Moment at={time} /> },
    { id: "actor", head: text("people.audit.actor"), width: "minmax(90px, 1fr)", cell: ({ actor }) => <UserText cut>{actor}</UserText> },
    { id: "action", head: text("people.audit.action"), width: "minmax(140px, 1fr)", cell: ({ action }) => <UserText cut>{action}</UserText> },
    { id: "subject", head: text("people.audit.subject"), width: "minmax(100px, 1fr)", cell: (entry) => <Named cluster={cluster} entry={entry} of="subject" /> },
    { id: "owner", head: text("people.audit.owner"), width: "minmax(80px, 1fr)", cell: ({ owner }) => <UserText cut>{owner}</UserText> },
    { id: "detail", head: text("people.audit.detail"), width: "minmax(140px, 2fr)", cell: (entry) => <Named cluster={cluster} entry={entry} of="detail" /> },
  ];
}

/** What an entry is about, or its details; a link where it is the entry's job. */
function Named({ cluster, entry, of }: { cluster: string; entry: AuditEntry; of: "subject" | "detail" }) {
  const name = <UserText cut>{entry[of]}</UserText>;
  const job = jobOf(entry);
  if (job === null || job !== entry[of]) return name;
  return (
    <Link to="/c/$cluster/jobs/$job" params={{ cluster, job }}>
      {name}
    </Link>
  );
}

/** What is shown as a file, which the gateway writes: it has all entries, also where the page has a part. */
function Export({ cluster, shown }: { cluster: string; shown: Shown }) {
  const path = `/v1/clusters/${encodeURIComponent(cluster)}/audit`;
  return (
    <Group gap="xs" align="center" role="group" aria-label={text("people.audit.export")}>
      <Text size="sm" c="dimmed">
        {text("people.audit.export")}
      </Text>
      {(["csv", "ndjson"] as const).map((format) => (
        <Button key={format} component="a" href={`${path}?${exported(shown, format).toString()}`} download variant="default">
          {text(`people.audit.${format}`)}
        </Button>
      ))}
    </Group>
  );
}
