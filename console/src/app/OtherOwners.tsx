/** Says whose jobs an act is about, where they are not the user's own. */

import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { profileQuery } from "../api/queries";
import { text } from "../texts";
import { count } from "../ui/format";
import { UserText } from "../ui/UserText";
import { otherOwners } from "./otherOwners";

const MOST_NAMED = 5;

interface Props {
  /** The user names of the owners. */
  owners: readonly string[];
  /** Whether the act is about several jobs, some of which may be the user's own. */
  several?: boolean;
}

export function OtherOwners({ owners, several = false }: Props) {
  const others = otherOwners(owners, useQuery(profileQuery).data?.name);
  if (others.length === 0) return null;
  const more = others.length - MOST_NAMED;
  const named = others.slice(0, MOST_NAMED).join(", ");
  const users = more > 0 ? text("app.owners.more", { users: named, more: count(more) }) : named;
  return (
    <Text size="sm" fw={600}>
      <UserText>{text(several ? "app.owners.several" : "app.owners.one", { users })}</UserText>
    </Text>
  );
}
