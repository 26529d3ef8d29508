/** The lists that filters and columns are chosen from. */

import { Checkbox, MultiSelect, Stack } from "@mantine/core";
import { useMemo } from "react";
import { text } from "../../texts";
import { DateField } from "../../ui/forms/DateField";
import { zone } from "../../ui/format";
import { visible } from "../../ui/UserText";
import { STATE_GROUPS, type StateGroup } from "../../ui/jobStates";
import type { ColumnsProps, FilterProps } from "./FilterBar";
import { choicesOf, LISTS } from "./filters";

const MOST_OFFERED = 100;
const MOST_CHOSEN = 50;

interface StatesProps {
  chosen: readonly StateGroup[];
  change: (states: StateGroup[]) => void;
}

export function StateList({ chosen, change }: StatesProps) {
  return (
    <Stack gap={6} role="group" aria-label={text("jobs.filter.states")}>
      {STATE_GROUPS.map((group) => (
        <Checkbox
          key={group}
          label={text(`ui.states.${group}`)}
          checked={chosen.includes(group)}
          onChange={(event) => {
            const { checked } = event.currentTarget;
            change(STATE_GROUPS.filter((each) => (each === group ? checked : chosen.includes(each))));
          }}
        />
      ))}
    </Stack>
  );
}

export function MoreLists({ filters, jobs, change }: FilterProps) {
  const choices = useMemo(() => choicesOf(jobs, filters), [jobs, filters]);
  return (
    <Stack gap="xs" w={260}>
      {LISTS.map((key) => (
        <MultiSelect
          key={key}
          label={text(`jobs.filter.${key}`)}
          data={choices[key].map((value) => ({ value, label: visible(value) }))}
          value={filters[key] ?? []}
          onChange={(chosen) => change({ [key]: chosen.length === 0 ? undefined : chosen })}
          maxValues={MOST_CHOSEN}
          limit={MOST_OFFERED}
          searchable
          clearable
          comboboxProps={{ withinPortal: false }}
        />
      ))}
      {(["since", "until"] as const).map((key) => (
        <DateField
          key={key}
          type="date"
          label={text(`jobs.filter.${key}`, { zone: zone() })}
          value={filters[key] ?? ""}
          apply={(day) => change({ [key]: day || undefined })}
        />
      ))}
    </Stack>
  );
}

export function ColumnList({ columns, shown, change }: ColumnsProps) {
  return (
    <Stack gap={6} role="group" aria-label={text("ui.table.columns")}>
      {columns.map(({ id, head }) => (
        <Checkbox
          key={id}
          label={head}
          checked={shown.includes(id)}
          disabled={id === "name"}
          onChange={(event) => {
            const { checked } = event.currentTarget;
            change(columns.map((each) => each.id).filter((each) => (each === id ? checked : shown.includes(each))));
          }}
        />
      ))}
    </Stack>
  );
}
