/** Reads and changes of schedules. */

import { queryOptions } from "@tanstack/react-query";
import { api, body, done } from "../api/client";
import type { NewSchedule } from "../api/schema";

/** The schedules of all clusters: one's own, for admins all. */
export const schedulesQuery = queryOptions({
  queryKey: ["schedules"],
  queryFn: ({ signal }) => body(api.GET("/v1/schedules", { signal })),
});

export function createSchedule(wanted: NewSchedule) {
  return body(api.POST("/v1/schedules", { body: wanted }));
}

export function deleteSchedule(id: string): Promise<void> {
  return done(api.DELETE("/v1/schedules/{schedule_id}", { params: { path: { schedule_id: id } } }));
}
