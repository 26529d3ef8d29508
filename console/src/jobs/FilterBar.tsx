/** The filters of the list: chosen from lists, shown as chips of which each can be taken away, and kept in the URL. */

import { Button, Checkbox, Menu, MultiSelect, Popover, Stack, TextInput } from "@mantine/core";
import { useEffect, useState } from "react";
import { text } from "../texts";
import { visible } from "../ui/Foreign";
import { STATE_GROUPS } from "../ui/jobStates";
import { isFiltered, type Choices, type Filters } from "./filters";
import classes from "./jobs.module.css";

interface Props {
  filters: Filters;
  choices: Choices;
  change: (to: Partial<{ [Key in keyof Filters]: Filters[Key] | undefined }>) => void;
}

const SEARCH_PAUSE_MS = 150;
const LISTS = ["users", "accounts", "partitions"] as const;

export function FilterBar({ filters, choices, change }: Props) {
  return (
    <div className={classes.filters} role="group" aria-label={text("jobs.filter.all")}>
      <Search find={filters.find ?? ""} change={(find) => change({ find: find === "" ? undefined : find })} />
      <States chosen={filters.states ?? []} change={(states) => change({ states: states.length === 0 ? undefined : states })} />
      <More filters={filters} choices={choices} change={change} />
      <Chips filters={filters} change={change} />
      {isFiltered(filters) ? (
        <Button
          variant="subtle"
          onClick={() => change({ states: undefined, users: undefined, accounts: undefined, partitions: undefined, since: undefined, until: undefined, find: undefined })}
        >
          {text("jobs.filter.clear")}
        </Button>
      ) : null}
    </div>
  );
}

/** What is typed is searched after a pause, so that the URL does not change with each key. */
function Search({ find, change }: { find: string; change: (find: string) => void }) {
  const [typed, setTyped] = useState(find);
  useEffect(() => setTyped(find), [find]);
  useEffect(() => {
    if (typed.trim() === find) return undefined;
    const timer = setTimeout(() => change(typed.trim()), SEARCH_PAUSE_MS);
    return () => clearTimeout(timer);
  });
  return (
    <TextInput
      type="search"
      aria-label={text("jobs.filter.find")}
      placeholder={text("jobs.filter.find")}
      maxLength={200}
      value={typed}
      onChange={(event) => setTyped(event.currentTarget.value)}
      w={200}
    />
  );
}

interface StatesProps {
  chosen: NonNullable<Filters["states"]>;
  change: (states: NonNullable<Filters["states"]>) => void;
}

function States({ chosen, change }: StatesProps) {
  return (
    <Menu closeOnItemClick={false} position="bottom-start">
      <Menu.Target>
        <Button variant="default">{text("jobs.filter.states")}</Button>
      </Menu.Target>
      <Menu.Dropdown>
        {STATE_GROUPS.map((group) => (
          <Menu.Item
            key={group}
            role="menuitemcheckbox"
            aria-checked={chosen.includes(group)}
            leftSection={<span aria-hidden>{chosen.includes(group) ? "☑" : "☐"}</span>}
            onClick={() => change(chosen.includes(group) ? chosen.filter((each) => each !== group) : [...chosen, group])}
          >
            {text(`ui.states.${group}`)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function More({ filters, choices, change }: Props) {
  return (
    <Popover position="bottom-start" width={300} trapFocus>
      <Popover.Target>
        <Button variant="default">{text("jobs.filter.more")}</Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="xs">
          {LISTS.map((key) => (
            <MultiSelect
              key={key}
              label={text(`jobs.filter.${key}`)}
              data={choices[key].map((value) => ({ value, label: visible(value) }))}
              value={filters[key] ?? []}
              onChange={(chosen) => change({ [key]: chosen.length === 0 ? undefined : chosen })}
              maxValues={50}
              limit={100}
              searchable
              clearable
              comboboxProps={{ withinPortal: false }}
            />
          ))}
          {(["since", "until"] as const).map((key) => (
            <TextInput
              key={key}
              type="date"
              label={text(`jobs.filter.${key}`)}
              value={filters[key] ?? ""}
              onChange={(event) => change({ [key]: event.currentTarget.value === "" ? undefined : event.currentTarget.value })}
            />
          ))}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

function Chips({ filters, change }: Omit<Props, "choices">) {
  const chips: { key: string; label: string; drop: () => void }[] = [];
  for (const group of filters.states ?? []) {
    const rest = filters.states?.filter((each) => each !== group) ?? [];
    chips.push({ key: `state ${group}`, label: text(`ui.states.${group}`), drop: () => change({ states: rest.length === 0 ? undefined : rest }) });
  }
  for (const key of LISTS) {
    for (const value of filters[key] ?? []) {
      const rest = filters[key]?.filter((each) => each !== value) ?? [];
      chips.push({
        key: `${key} ${value}`,
        label: text(`jobs.filter.chip_${key}`, { value: visible(value) }),
        drop: () => change({ [key]: rest.length === 0 ? undefined : rest }),
      });
    }
  }
  for (const key of ["since", "until"] as const) {
    const value = filters[key];
    if (value !== undefined) chips.push({ key, label: text(`jobs.filter.chip_${key}`, { value }), drop: () => change({ [key]: undefined }) });
  }
  return chips.map(({ key, label, drop }) => (
    <span key={key} className={classes.chip}>
      <bdi style={{ overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" }}>{label}</bdi>
      <button type="button" aria-label={text("jobs.filter.remove", { filter: label })} onClick={drop}>
        ×
      </button>
    </span>
  ));
}

interface ColumnsProps {
  columns: readonly { id: string; head: string }[];
  shown: readonly string[];
  change: (shown: string[]) => void;
}

/** Which columns are shown. The name is always among them. */
export function ColumnChoice({ columns, shown, change }: ColumnsProps) {
  return (
    <Popover position="bottom-end" trapFocus>
      <Popover.Target>
        <Button variant="default">{text("ui.table.columns")}</Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap={6}>
          {columns.map(({ id, head }) => (
            <Checkbox
              key={id}
              label={head}
              checked={shown.includes(id)}
              disabled={id === "name"}
              onChange={(event) => {
                const checked = event.currentTarget.checked;
                change(columns.map((each) => each.id).filter((each) => (each === id ? checked : shown.includes(each))));
              }}
            />
          ))}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
