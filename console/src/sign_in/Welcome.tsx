/** The frame of the pages of people who are not signed in: one column with the page's heading. */

import { Anchor, Stack, Text, Title } from "@mantine/core";
import { useEffect, type ReactNode } from "react";
import { text } from "../texts";

export function Welcome({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = text("ui.tab_title", { page: title });
  }, [title]);
  return (
    <Stack component="main" gap="md" maw={380} mx="auto" px="md" py={{ base: 48, xs: 96 }}>
      <Title order={1} fz="xl">
        {title}
      </Title>
      {children}
      <Text size="sm" c="dimmed" mt="lg">
        <Anchor href="/v1/auth/device">{text("sign_in.device")}</Anchor>
        {" · "}
        <Anchor href="/v1/docs">{text("app.api")}</Anchor>
      </Text>
    </Stack>
  );
}
