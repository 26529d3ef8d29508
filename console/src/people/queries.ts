/** What is read of a tenant's people: members, invitations, tokens, service accounts, and where identities come from. */

import { queryOptions } from "@tanstack/react-query";
import { api, body } from "../api/client";
import type { MemberView, OwnedToken } from "../api/schema";

/** A list that is read page by page up to a bound. */
export interface Bounded<Row> {
  rows: Row[];
  /** There are more than were read. */
  cut: boolean;
}

export const MOST_ROWS = 2_000;
const MEMBERS_PAGE = 200;
const TOKENS_PAGE = 100;

export const membersQuery = queryOptions({
  queryKey: ["people", "members"],
  queryFn: ({ signal }) =>
    all<MemberView>(async (cursor) => {
      const query = { limit: MEMBERS_PAGE, ...(cursor === null ? {} : { cursor }) };
      const { members, next_cursor } = await body(api.GET("/v1/members", { params: { query }, signal }));
      return [members, next_cursor];
    }),
});

export const tokensQuery = queryOptions({
  queryKey: ["people", "tokens"],
  queryFn: ({ signal }) =>
    all<OwnedToken>(async (cursor) => {
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

async function all<Row>(page: (cursor: string | null) => Promise<[Row[], string | null]>): Promise<Bounded<Row>> {
  const rows: Row[] = [];
  let cursor: string | null = null;
  do {
    const [more, next]: [Row[], string | null] = await page(cursor);
    rows.push(...more);
    cursor = next;
  } while (cursor !== null && rows.length < MOST_ROWS);
  return { rows, cut: cursor !== null };
}

/** Whether one of the values has the text in it that was typed. */
export function contains(find: string | undefined, ...values: string[]): boolean {
  const wanted = find?.trim().toLowerCase() ?? "";
  return wanted === "" || values.some((value) => value.toLowerCase().includes(wanted));
}
