/** The acts of a row of a table, in a menu. */

import { ActionIcon, Menu } from "@mantine/core";
import { Ellipsis } from "lucide-react";
import { text } from "../../texts";

export interface RowAction {
  label: string;
  run: () => void;
  dangerous?: boolean;
  disabled?: boolean;
}

export function RowActions({ of, acts }: { of: string; acts: readonly RowAction[] }) {
  if (acts.length === 0) return null;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon size={26} color="gray" variant="subtle" c="var(--text)" aria-label={text("ui.acts_of", { of })}>
          <Ellipsis size={16} aria-hidden />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {acts.map(({ label, run, dangerous, disabled }) => (
          <Menu.Item
            key={label}
            onClick={run}
            {...(disabled === undefined ? {} : { disabled })}
            {...(dangerous ? { c: "var(--state-failed)" } : {})}
          >
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
