/** The filters of the list of events. All of them are in the URL. */

import { Button, Group, MultiSelect, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { text } from "../texts";

interface Search {
  kinds?: string[] | undefined;
  subject?: string | undefined;
  since?: string | undefined;
  until?: string | undefined;
}

interface Props {
  search: Search;
  change: (search: Search) => void;
}

const GROUPS = [
  "job",
  "action",
  "scale",
  "worker",
  "node",
  "cluster",
  "file",
  "template",
  "schedule",
  "member",
  "token",
  "quota",
  "budget",
] as const;
const PAUSE_MS = 300;

export function ActivityFilters({ search, change }: Props) {
  const typed = useDebouncedCallback((subject: string) => change({ ...search, subject: subject || undefined }), PAUSE_MS);
  const filtered = Object.values(search).some((value) => value !== undefined);
  return (
    <Group gap="xs" mb="sm" align="end">
      <MultiSelect
        label={text("activity.filter.kind")}
        placeholder={search.kinds?.length ? "" : text("activity.filter.all")}
        data={GROUPS.map((group) => ({ value: group, label: text(`activity.group.${group}`) }))}
        value={search.kinds ?? []}
        onChange={(kinds) => change({ ...search, kinds: kinds.length > 0 ? kinds : undefined })}
        miw={200}
      />
      <TextInput
        key={search.subject ?? ""}
        label={text("activity.filter.subject")}
        placeholder={text("activity.filter.subject_hint")}
        defaultValue={search.subject ?? ""}
        maxLength={500}
        onChange={(event) => typed(event.currentTarget.value.trim())}
        miw={220}
      />
      <DateInput label={text("activity.filter.since")} value={search.since} change={(since) => change({ ...search, since })} />
      <DateInput label={text("activity.filter.until")} value={search.until} change={(until) => change({ ...search, until })} />
      {filtered ? (
        <Button variant="default" onClick={() => change({})}>
          {text("activity.filter.clear")}
        </Button>
      ) : null}
    </Group>
  );
}

interface DateProps {
  label: string;
  /** ISO 8601 in UTC. */
  value: string | undefined;
  change: (value: string | undefined) => void;
}

/** A moment in the viewer's zone. */
function DateInput({ label, value, change }: DateProps) {
  return (
    <TextInput
      type="datetime-local"
      label={label}
      value={value === undefined ? "" : local(new Date(value))}
      onChange={(event) => {
        const chosen = new Date(event.currentTarget.value);
        change(Number.isNaN(chosen.getTime()) ? undefined : chosen.toISOString());
      }}
    />
  );
}

function local(moment: Date): string {
  const shifted = new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 16);
}
