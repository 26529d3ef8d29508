/** What a page shows in place of content: nothing there yet, or no right to see it. */

import { Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  title: string;
  children?: ReactNode;
  /** What one can do about it. */
  action?: ReactNode;
}

export function Empty({ title, children, action }: Props) {
  return (
    <Stack align="center" gap="xs" py={48} px="md">
      <Title order={2} fz="lg">
        {title}
      </Title>
      {children ? (
        <Text c="dimmed" ta="center" maw={520}>
          {children}
        </Text>
      ) : null}
      {action}
    </Stack>
  );
}
