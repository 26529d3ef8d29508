/** A short table. Lists without a bound are a `DataTable`. */

import { Table, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { text } from "../texts";

interface RowsProps {
  label: string;
  /** The heads of the columns; the empty one is that of the acts. */
  heads: readonly string[];
  /** The heads of the columns of numbers. */
  numeric?: readonly string[];
  children: ReactNode;
}

export function Rows({ label, heads, numeric = [], children }: RowsProps) {
  return (
    // Words for readers of the page stay in the container, so that they do not widen the page.
    <Table.ScrollContainer minWidth={heads.length * 90} type="native" style={{ flex: "none", position: "relative" }}>
      <Table aria-label={label} verticalSpacing={4} horizontalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            {heads.map((head, at) => (
              <Table.Th key={head || at} fz="xs" c="dimmed" ta={numeric.includes(head) ? "end" : "start"}>
                {head === "" ? <span className="visually-hidden">{text("people.acts")}</span> : head}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** Says that a list has more than is shown. */
export function TruncationNote({ shown, when }: { shown: number; when: boolean }) {
  return when ? (
    <Text size="sm" c="dimmed" mt={4}>
      {text("people.cut", { count: shown })}
    </Text>
  ) : null;
}
