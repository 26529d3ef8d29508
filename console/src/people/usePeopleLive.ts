/** Reads again what events say has changed. They name people, tokens and invitations, and tell no more of them. */

import { useQueryClient } from "@tanstack/react-query";
import { refetchQueries } from "../api/queries";
import { useLiveRefetch } from "../live/useLive";
import { invitationsQuery, membersQuery, ownTokensQuery, serviceAccountsQuery, tokensQuery } from "./queries";

const KEYS = ["people", "keys"] as const;

export function usePeopleLive(): void {
  const queries = useQueryClient();
  const again = (...keys: (readonly unknown[])[]) => refetchQueries(queries, ...keys);
  useLiveRefetch(["member.", "user.created"], () => again(membersQuery.queryKey, serviceAccountsQuery.queryKey));
  useLiveRefetch(["invitation.", "user.created"], () => again(invitationsQuery.queryKey));
  useLiveRefetch(["token.", "member."], () => again(tokensQuery.queryKey, ownTokensQuery.queryKey, KEYS));
  useLiveRefetch(["cluster."], () => again(["clusters"], ["cluster"]));
}
