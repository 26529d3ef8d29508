/** The head of a budget or a quota: whose it is, who set it, and what one can do with it. */

import { Button, Group, Text, Title } from "@mantine/core";
import { text } from "../../texts";
import { UserText, visible } from "../../ui/UserText";
import { Moment } from "../../ui/Moment";
import type { Scope } from "../queries";

interface Props {
  scope: Scope;
  name: string;
  month: string;
  setBy: string;
  setAt: string;
  /** Null for whoever may not change it. */
  acts: { change: () => void; remove: () => void } | null;
}

export function LimitHead({ scope, name, month, setBy, setAt, acts }: Props) {
  return (
    <Group justify="space-between" gap="xs" mb={4}>
      <Group gap="xs" align="baseline">
        <Title order={3} fz="md">
          {text(`money.scope.${scope}`)} <UserText>{name}</UserText>
        </Title>
        <Text size="sm" c="dimmed">
          {text("money.limit.month", { month })}
        </Text>
        <Text size="sm" c="dimmed">
          {text("money.limit.set_by", { who: visible(setBy) })}{" "}
          <Moment at={setAt} />
        </Text>
      </Group>
      {acts === null ? null : (
        <Group gap="xs">
          <Button variant="default" onClick={acts.change} aria-label={`${text("money.limit.change")}: ${visible(name)}`}>
            {text("money.limit.change")}
          </Button>
          <Button variant="default" onClick={acts.remove} aria-label={`${text("money.limit.remove")}: ${visible(name)}`}>
            {text("money.limit.remove")}
          </Button>
        </Group>
      )}
    </Group>
  );
}
