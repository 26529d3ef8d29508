/** Goes anywhere by typing: a text field with a list that follows it, used wholly by keyboard (ARIA combobox). */

import { Modal, Text, TextInput } from "@mantine/core";
import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import { text } from "../../texts";
import { useReturnedFocus } from "../../ui/useReturnedFocus";
import { UserText } from "../../ui/UserText";
import classes from "./Palette.module.css";
import { ranked, type Entry } from "./ranking";
import { useEntries } from "./useEntries";

interface Props {
  cluster: string;
  opened: boolean;
  close: () => void;
}

export function Palette({ cluster, opened, close }: Props) {
  return (
    <Modal.Root opened={opened} onClose={close} size="lg" yOffset="10vh" transitionProps={{ duration: 0 }}>
      <Modal.Overlay />
      <Modal.Content aria-label={text("app.palette.open")}>
        <Content cluster={cluster} close={close} />
      </Modal.Content>
    </Modal.Root>
  );
}

function Content({ cluster, close }: { cluster: string; close: () => void }) {
  useReturnedFocus();
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const list = useId();
  const box = useRef<HTMLDivElement>(null);
  const { entries, searching, failed } = useEntries(cluster, typed);
  const shown = ranked(typed, entries);
  const active = Math.min(chosen, shown.length - 1);

  useEffect(() => {
    box.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [active, typed]);

  const run = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    close();
    entry.run();
  };

  const pressed = (event: KeyboardEvent) => {
    const moves: Record<string, number> = {
      ArrowDown: active + 1 >= shown.length ? 0 : active + 1,
      ArrowUp: active <= 0 ? shown.length - 1 : active - 1,
      PageDown: Math.min(active + 8, shown.length - 1),
      PageUp: Math.max(active - 8, 0),
    };
    const to = moves[event.key];
    if (to !== undefined) {
      event.preventDefault();
      setChosen(to);
    } else if (event.key === "Enter" && !event.nativeEvent.isComposing) {
      event.preventDefault();
      run(shown[active]);
    }
  };

  return (
    <>
      <TextInput
        size="md"
        variant="unstyled"
        px="md"
        py={6}
        value={typed}
        maxLength={200}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={pressed}
        placeholder={text("app.palette.placeholder")}
        aria-label={text("app.palette.open")}
        role="combobox"
        aria-expanded={shown.length > 0}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={active < 0 ? undefined : `${list}-${active}`}
        data-autofocus
        autoComplete="off"
        spellCheck={false}
      />
      <div id={list} role="listbox" aria-label={text("app.palette.results")} className={classes.list} ref={box}>
        <Groups list={list} shown={shown} active={active} run={run} choose={setChosen} />
      </div>
      <Text size="sm" c="dimmed" px="md" py={8} role="status" className={classes.status}>
        {searching ? text("app.palette.searching") : text(failed ? "app.palette.count_failed" : "app.palette.count", { count: shown.length })}
      </Text>
    </>
  );
}

interface GroupsProps {
  list: string;
  shown: readonly Entry[];
  active: number;
  run: (entry: Entry) => void;
  choose: (at: number) => void;
}

function Groups({ list, shown, active, run, choose }: GroupsProps) {
  const kinds = [...new Set(shown.map(({ kind }) => kind))];
  return kinds.map((kind) => (
    <div key={kind} role="group" aria-label={text(`app.palette.kind.${kind}`)}>
      <div className={classes.kind} aria-hidden>
        {text(`app.palette.kind.${kind}`)}
      </div>
      {shown.map((entry, at) =>
        entry.kind === kind ? (
          // The keyboard is the text field's, as in every combobox.
          <div
            key={entry.id}
            id={`${list}-${at}`}
            role="option"
            aria-selected={at === active}
            className={classes.option}
            onClick={() => run(entry)}
            onMouseMove={() => choose(at)}
          >
            <span className={classes.label}>
              <UserText cut>{entry.label}</UserText>
            </span>
            {entry.details ? (
              <span className={classes.details}>
                <UserText cut>{entry.details}</UserText>
              </span>
            ) : null}
          </div>
        ) : null,
      )}
    </div>
  ));
}
