/** Chooses the template of a workflow; the page of submits does the rest. */

import { Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import type { MouseEvent } from "react";
import { launchablesQuery } from "../api/launchables";
import { text } from "../texts";
import { Empty } from "../ui/Empty";
import { UserText } from "../ui/UserText";
import { ProblemView } from "../ui/ProblemView";
import { Dialog } from "../ui/Dialog";

export function StartWorkflow({ cluster, close }: { cluster: string; close: () => void }) {
  const templates = useQuery(launchablesQuery("workflow"));
  const { history } = useRouter();
  /** Without a reload, which would end uploads. */
  function go(event: MouseEvent, address: string) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    history.push(address);
  }
  const found = templates.data?.launchables ?? [];
  return (
    <Dialog close={close} title={text("workflows.start_title")}>
      <Stack gap="sm">
        {templates.isError ? <ProblemView error={templates.error} retry={() => void templates.refetch()} /> : null}
        {templates.isPending ? <Skeleton height={60} /> : null}
        {templates.isSuccess && found.length === 0 ? (
          <Empty title={text("workflows.no_templates")}>{text("workflows.no_templates_details")}</Empty>
        ) : null}
        {found.length > 0 ? (
          <Text size="sm" c="dimmed">
            {text("workflows.start_help")}
          </Text>
        ) : null}
        {found.map(({ id, name, description }) => (
          <div key={id}>
            <a href={submitAddress(cluster, id)} onClick={(event) => go(event, submitAddress(cluster, id))}>
              <UserText>{name}</UserText>
            </a>
            <Text size="sm" c="dimmed">
              <UserText>{description}</UserText>
            </Text>
          </div>
        ))}
      </Stack>
    </Dialog>
  );
}

function submitAddress(cluster: string, template: string): string {
  return `/c/${encodeURIComponent(cluster)}/submit?template=${encodeURIComponent(template)}`;
}
