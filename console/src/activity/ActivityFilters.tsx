/** The filters of the list of events. All of them are in the URL. */

import { Button, Group, MultiSelect, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";
import { text } from "../texts";
import { DateField } from "../ui/forms/DateField";
import { zone } from "../ui/format";

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
  "run",
  "scale",
  "worker",
  "node",
  "cluster",
  "file",
  "template",
  "schedule",
  "session",
  "member",
  "token",
  "quota",
  "budget",
] as const;
const PAUSE_MS = 300;

export function ActivityFilters({ search, change }: Props) {
  const { subject: applied = "" } = search;
  const [subject, setSubject] = useState(applied);
  // What this field has applied itself: it may have been written on since.
  const own = useRef(applied);
  useEffect(() => {
    if (own.current !== applied) setSubject(applied);
    own.current = applied;
  }, [applied]);
  const apply = useDebouncedCallback((written: string) => {
    own.current = written;
    change({ ...search, subject: written || undefined });
  }, PAUSE_MS);
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
        label={text("activity.filter.subject")}
        placeholder={text("activity.filter.subject_hint")}
        value={subject}
        maxLength={500}
        onChange={(event) => {
          setSubject(event.currentTarget.value);
          apply(event.currentTarget.value.trim());
        }}
        miw={220}
      />
      {(["since", "until"] as const).map((end) => (
        <DateField
          key={end}
          type="datetime-local"
          label={text(end === "since" ? "ui.period.from" : "ui.period.until", { zone: zone() })}
          value={local(search[end])}
          apply={(written) => change({ ...search, [end]: chosen(written) })}
        />
      ))}
      {filtered ? (
        <Button variant="default" onClick={() => {
            apply.cancel();
            change({});
          }}>
          {text("activity.filter.clear")}
        </Button>
      ) : null}
    </Group>
  );
}

/** A moment of the URL in the viewer's zone, as the input has it. */
function local(moment: string | undefined): string {
  if (moment === undefined) return "";
  const at = new Date(moment);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The moment that an input has, in UTC. */
function chosen(written: string): string | undefined {
  const at = new Date(written);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}
