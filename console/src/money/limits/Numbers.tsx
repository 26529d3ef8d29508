/** Numbers with their names, in a line. */

import { Group, Text } from "@mantine/core";

export function Numbers({ of }: { of: readonly { label: string; value: string }[] }) {
  return (
    <Group component="dl" gap="lg" m={0} mt={4}>
      {of.map(({ label, value }) => (
        <Group key={label} gap={6} wrap="nowrap">
          <Text component="dt" size="sm" c="dimmed">
            {label}
          </Text>
          <Text component="dd" size="sm" m={0} className="number" fw={600}>
            {value}
          </Text>
        </Group>
      ))}
    </Group>
  );
}
