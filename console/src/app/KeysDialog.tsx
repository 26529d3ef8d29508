/** The keys of the console. Who speaks to the computer can switch keys of one character off. */

import { Group, Kbd, Switch, Table } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import type { ReactNode } from "react";
import { text } from "../texts";
import { CHARACTER_KEYS, COMMAND } from "./keys";
import { Dialog } from "../ui/Dialog";

export function KeysDialog({ close }: { close: () => void }) {
  const [enabled, enable] = useLocalStorage<boolean>(CHARACTER_KEYS);
  const rows: [string, ReactNode][] = [
    ["palette", <Keys key="palette" keys={[COMMAND, "K"]} />],
    ["help", <Keys key="help" keys={["?"]} />],
    ["choose", <Keys key="choose" keys={["↑", "↓", "Enter"]} />],
    ["close", <Keys key="close" keys={["Esc"]} />],
    ["skip", <Keys key="skip" keys={["Tab", "Enter"]} />],
  ];
  return (
    <Dialog close={close} title={text("app.keys.title")} size="md">
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
    </Dialog>
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
