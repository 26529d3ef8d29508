/** The frame of a page: its one heading, its acts, and its content. The heading is the title of the tab, too. */

import { Group, Title } from "@mantine/core";
import { useMatch } from "@tanstack/react-router";
import { useEffect, useRef, type ReactNode } from "react";
import { text } from "../texts";
import { pageFocus } from "./pageFocus";
import classes from "./Page.module.css";

interface Props {
  title: string;
  /** Shown in place of the title, which stays the name of the page. */
  heading?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

export function Page({ title, heading, actions, children }: Props) {
  const head = useRef<HTMLHeadingElement>(null);
  // The path of the page that is drawn: the router's own is already that of a page on its way.
  const path = useMatch({ strict: false, select: ({ pathname }) => pathname });
  useEffect(() => {
    if (head.current !== null) pageFocus.shown(path, head.current, document.activeElement === document.body);
  }, [path]);
  useEffect(() => {
    document.title = text("ui.tab_title", { page: title });
  }, [title]);
  return (
    <div className={classes.page}>
      <Group justify="space-between" gap="xs" mb="sm" align="center">
        <Title ref={head} order={1} fz="xl" tabIndex={-1} className={classes.heading}>
          {heading ?? title}
        </Title>
        {actions ? <Group gap="xs">{actions}</Group> : null}
      </Group>
      {children}
    </div>
  );
}
