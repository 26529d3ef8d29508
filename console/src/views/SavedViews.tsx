/** The saved views of a page: a button that opens them. What it opens is loaded when it is opened first. */

import { Button, Popover } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { text } from "../texts";
import type { ViewedPage } from "./views";

const ViewList = lazy(() => import("./ViewList").then(({ ViewList: component }) => ({ default: component })));

export function SavedViews({ page }: { page: ViewedPage }) {
  const [opened, setOpened] = useState(false);
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" trapFocus>
      <Popover.Target>
        <Button variant="default" onClick={() => setOpened(!opened)}>
          {text("views.title")}
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label={text("views.title")}>
        <Suspense fallback={text("ui.loading")}>
          <ViewList page={page} close={() => setOpened(false)} />
        </Suspense>
      </Popover.Dropdown>
    </Popover>
  );
}
