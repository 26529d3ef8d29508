/** The keys of the console. `?` opens them; who speaks to the computer can switch keys of one character off. */

import { Group, Kbd, Modal, Switch, Table } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { useEffect, useRef, type ReactNode } from "react";
import { text } from "../texts";

const STORED = { key: "clusterra.character-keys", defaultValue: true, getInitialValueInEffect: false } as const;

interface Props {
  opened: boolean;
  close: () => void;
}

/** The key that the platform's own shortcuts have. */
export const COMMAND = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";

export function KeysDialog({ opened, close }: Props) {
  const [enabled, enable] = useLocalStorage<boolean>(STORED);
  const rows: [string, ReactNode][] = [
    ["palette", <Keys key="palette" keys={[COMMAND, "K"]} />],
    ["help", <Keys key="help" keys={["?"]} />],
    ["choose", <Keys key="choose" keys={["↑", "↓", "Enter"]} />],
    ["close", <Keys key="close" keys={["Esc"]} />],
    ["skip", <Keys key="skip" keys={["Tab", "Enter"]} />],
  ];
  return (
    <Modal opened={opened} onClose={close} title={text("app.keys.title")} size="md">
      <Table>
        <Table.Tbody>
          {rows.map(([key, keys]) => (
            <Table.Tr key={key}>
              <Table.Th scope="row" fw={400}>
                {text(`app.keys.${key as "palette" | "help" | "choose" | "close" | "skip"}`)}
              </Table.Th>
              <Table.Td>{keys}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Switch
        mt="md"
        label={text("app.keys.enabled")}
        checked={enabled}
        onChange={(event) => enable(event.currentTarget.checked)}
      />
    </Modal>
  );
}

function Keys({ keys }: { keys: readonly string[] }) {
  return (
    <Group gap={4}>
      {keys.map((key) => (
        <Kbd key={key}>{key}</Kbd>
      ))}
    </Group>
  );
}

/** Calls `open` at `?`, but not where one writes. */
export function useKeysDialog(open: () => void): void {
  const [enabled] = useLocalStorage<boolean>(STORED);
  const latest = useRef(open);
  latest.current = open;
  useEffect(() => {
    if (!enabled) return;
    const pressed = (event: KeyboardEvent) => {
      if (event.key !== "?" || event.ctrlKey || event.metaKey || event.altKey || writing(event.target)) return;
      event.preventDefault();
      latest.current();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [enabled]);
}

function writing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}
