/** The filters of the list: chosen from lists, shown as chips of which each can be taken away, and kept in the URL. */

import { Button, Popover, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { lazy, Suspense, useEffect, useRef, useState, type ReactNode } from "react";
import type { Job } from "../../api/schema";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";
import { isFiltered, LISTS, type Filters } from "./filters";
import classes from "../jobs.module.css";

// What the buttons open is loaded when the first is opened.
const lists = () => import("./FilterLists");
const StateList = lazy(() => lists().then(({ StateList: component }) => ({ default: component })));
const MoreLists = lazy(() => lists().then(({ MoreLists: component }) => ({ default: component })));
const ColumnList = lazy(() => lists().then(({ ColumnList: component }) => ({ default: component })));

export interface FilterProps {
  filters: Filters;
  /** All that were read, which the lists offer the values of. */
  jobs: readonly Job[];
  change: (to: Partial<{ [Key in keyof Filters]: Filters[Key] | undefined }>) => void;
}

const SEARCH_PAUSE_MS = 150;
const MOST_SENT = 20;

interface BarProps extends FilterProps {
  /** What is typed, and what happens with more of it. */
  typed: string;
  type: (typed: string) => void;
}

export function FilterBar({ filters, jobs, change, typed, type }: BarProps) {
  return (
    <div className={classes.filters} role="group" aria-label={text("jobs.filter.all")}>
      <TextInput
        type="search"
        aria-label={text("jobs.filter.find")}
        placeholder={text("jobs.filter.find")}
        maxLength={200}
        value={typed}
        onChange={(event) => type(event.currentTarget.value)}
        w={200}
      />
      <Opened label={text("jobs.filter.states")}>
        <StateList chosen={filters.states ?? []} change={(states) => change({ states: states.length === 0 ? undefined : states })} />
      </Opened>
      <Opened label={text("jobs.filter.more")}>
        <MoreLists filters={filters} jobs={jobs} change={change} />
      </Opened>
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

/**
 * What is typed in the search: shown at once, and in the URL after a pause, so that it does not change with each key. What
 * the URL has replaces it only where it comes from elsewhere, such as a link: what was sent from here lacks what was typed
 * since.
 */
export function useTyped(find: string, change: FilterProps["change"]): [string, (typed: string) => void] {
  const [typed, setTyped] = useState(find);
  /** What was sent and is not in the URL yet. */
  const sent = useRef<string[]>([]);
  const send = useDebouncedCallback((wanted: string) => {
    if (wanted === (sent.current.at(-1) ?? find)) return;
    sent.current = [...sent.current, wanted].slice(-MOST_SENT);
    change({ find: wanted === "" ? undefined : wanted });
  }, SEARCH_PAUSE_MS);
  useEffect(() => {
    const own = sent.current.indexOf(find);
    sent.current = own < 0 ? [] : sent.current.slice(own + 1);
    if (own >= 0) return;
    send.cancel();
    setTyped(find);
  }, [find, send]);
  const type = (value: string) => {
    setTyped(value);
    send(value.trim());
  };
  return [typed, type];
}

/** A field that is applied when one leaves it would go before it is left, where nothing moves on its way out. */
function leaveField(): void {
  if (document.activeElement instanceof HTMLInputElement) document.activeElement.blur();
}

/** A button that opens what is chosen from. */
function Opened({ label, children, end = false }: { label: string; children: ReactNode; end?: boolean }) {
  return (
    <Popover position={end ? "bottom-end" : "bottom-start"} trapFocus onDismiss={leaveField}>
      <Popover.Target>
        <Button variant="default">{label}</Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Suspense fallback={text("ui.loading")}>{children}</Suspense>
      </Popover.Dropdown>
    </Popover>
  );
}

function Chips({ filters, change }: Omit<FilterProps, "jobs">) {
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

export interface ColumnsProps {
  columns: readonly { id: string; head: string }[];
  shown: readonly string[];
  change: (shown: string[]) => void;
}

/** Which columns are shown. The name is always among them. */
export function ColumnChoice(props: ColumnsProps) {
  return (
    <Opened label={text("ui.table.columns")} end>
      <ColumnList {...props} />
    </Opened>
  );
}
