/** The frame of a page: its one heading, its acts, and its content. The heading is the title of the tab, too. */

import { Group, Title } from "@mantine/core";
import { useEffect, type ReactNode } from "react";
import { text } from "../texts";
import classes from "./Page.module.css";

interface Props {
  title: string;
  /** Shown in place of the title, which stays the name of the page. */
  heading?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

export function Page({ title, heading, actions, children }: Props) {
  useEffect(() => {
    document.title = text("ui.tab_title", { page: title });
  }, [title]);
  return (
    <div className={classes.page}>
      <Group justify="space-between" gap="xs" mb="sm" align="center">
        <Title order={1} fz="xl">
          {heading ?? title}
        </Title>
        {actions ? <Group gap="xs">{actions}</Group> : null}
      </Group>
      {children}
    </div>
  );
}
