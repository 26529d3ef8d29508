/** How old what a page shows is, where no events tell of it, and the act that reads it again. */

import { Group, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { text } from "../texts";
import { Moment } from "../ui/Moment";
import { RefreshButton } from "../ui/RefreshButton";

export function RefreshBar({ query }: { query: UseQueryResult }) {
  return (
    <Group justify="flex-end" gap="xs" mb="xs" mih={30}>
      {query.dataUpdatedAt > 0 ? (
        <Text size="sm" c="dimmed">
          {text("people.read")} <Moment at={new Date(query.dataUpdatedAt).toISOString()} />
        </Text>
      ) : null}
      <RefreshButton busy={query.isFetching} refresh={() => void query.refetch()}>
        {text("people.read_again")}
      </RefreshButton>
    </Group>
  );
}
