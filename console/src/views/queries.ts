/** Reads and changes of the lists that a person has saved. */

import { queryOptions } from "@tanstack/react-query";
import { api, body, done } from "../api/client";
import type { SavedViewView } from "../api/schema";
import type { ViewedPage } from "./views";

export const viewsQuery = queryOptions({
  queryKey: ["views"],
  queryFn: async ({ signal }) => (await body(api.GET("/v1/users/me/views", { signal }))).views,
  // No event tells of views: they are read whenever the list is opened.
  staleTime: 0,
});

export function saveView(name: string, page: ViewedPage, query: string): Promise<SavedViewView> {
  return body(api.PUT("/v1/users/me/views/{view_name}", { params: { path: { view_name: name } }, body: { page, query } }));
}

export function deleteView(name: string): Promise<void> {
  return done(api.DELETE("/v1/users/me/views/{view_name}", { params: { path: { view_name: name } } }));
}
