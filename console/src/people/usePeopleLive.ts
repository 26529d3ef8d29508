/** Reads again what events say has changed. They name people, tokens and invitations, and tell no more of them. */

import { useQueryClient } from "@tanstack/react-query";
import { readAllAgain } from "../api/queries";
import { useReadAgain } from "../live/useLive";
import { invitationsQuery, membersQuery, ownTokensQuery, serviceAccountsQuery, tokensQuery } from "./queries";

const KEYS = ["people", "keys"] as const;

export function usePeopleLive(): void {
  const queries = useQueryClient();
  const again = (...keys: (readonly unknown[])[]) => readAllAgain(queries, ...keys);
  useReadAgain(["member.", "user.created"], () => again(membersQuery.queryKey, serviceAccountsQuery.queryKey));
  useReadAgain(["invitation.", "user.created"], () => again(invitationsQuery.queryKey));
  useReadAgain(["token.", "member."], () => again(tokensQuery.queryKey, ownTokensQuery.queryKey, KEYS));
  useReadAgain(["cluster."], () => again(["clusters"], ["cluster"]));
}
