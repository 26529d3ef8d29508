/** How old what a page shows is, where no events tell of it, and the act that reads it again. */

import { Button, Group, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { text } from "../texts";
import { Moment } from "../ui/Moment";

export function RefreshBar({ query }: { query: UseQueryResult }) {
  return (
    <Group justify="flex-end" gap="xs" mb="xs" mih={30}>
      {query.dataUpdatedAt > 0 ? (
        <Text size="sm" c="dimmed">
          {text("people.read")} <Moment at={new Date(query.dataUpdatedAt).toISOString()} />
        </Text>
      ) : null}
      <Button variant="default" onClick={() => void query.refetch()} loading={query.isFetching}>
        {text("people.read_again")}
      </Button>
    </Group>
  );
}
