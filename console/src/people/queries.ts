/** What is read of a tenant's people: members, invitations, tokens, service accounts, and where identities come from. */

import { queryOptions } from "@tanstack/react-query";
import { allPages } from "../api/allPages";
import { api, body } from "../api/client";
import type { MemberView, OwnedToken } from "../api/schema";

const MEMBERS_PAGE = 200;
const TOKENS_PAGE = 100;

export const membersQuery = queryOptions({
  queryKey: ["people", "members"],
  queryFn: ({ signal }) =>
    allPages<MemberView>(async (cursor) => {
      const query = { limit: MEMBERS_PAGE, ...(cursor === null ? {} : { cursor }) };
      const { members, next_cursor } = await body(api.GET("/v1/members", { params: { query }, signal }));
      return [members, next_cursor];
    }),
});

export const tokensQuery = queryOptions({
  queryKey: ["people", "tokens"],
  queryFn: ({ signal }) =>
    allPages<OwnedToken>(async (cursor) => {
      const query = { limit: TOKENS_PAGE, ...(cursor === null ? {} : { cursor }) };
      const { tokens, next_cursor } = await body(api.GET("/v1/tokens", { params: { query }, signal }));
      return [tokens, next_cursor];
    }),
});

export const ownTokensQuery = queryOptions({
  queryKey: ["people", "own tokens"],
  queryFn: ({ signal }) => body(api.GET("/v1/users/me/tokens", { signal })),
});

export const invitationsQuery = queryOptions({
  queryKey: ["people", "invitations"],
  queryFn: ({ signal }) => body(api.GET("/v1/invitations", { signal })),
});

export const serviceAccountsQuery = queryOptions({
  queryKey: ["people", "service accounts"],
  queryFn: ({ signal }) => body(api.GET("/v1/service-accounts", { signal })),
});

export function keysQuery(name: string) {
  return queryOptions({
    queryKey: ["people", "keys", name],
    queryFn: ({ signal }) => body(api.GET("/v1/service-accounts/{name}/keys", { params: { path: { name } }, signal })),
  });
}

export const identitySourcesQuery = queryOptions({
  queryKey: ["people", "identity sources"],
  queryFn: ({ signal }) => body(api.GET("/v1/identity-sources", { signal })),
});

/** Whether one of the values has the text in it that was typed. */
export function contains(find: string | undefined, ...values: string[]): boolean {
  const wanted = find?.trim().toLowerCase() ?? "";
  return wanted === "" || values.some((value) => value.toLowerCase().includes(wanted));
}
