import { expect, test } from "vitest";
import type { SessionDetail } from "../api/schema";
import type { LiveEvent } from "../live/event";
import { mayStart, withEvent } from "./listUpdates";

function session(id: string, state: SessionDetail["state"]): SessionDetail {
  return { job_id: id, template_id: "notebook", name: "notes", state, detail: "its job is PENDING", created_at: "2026-01-01T00:00:00Z", idle_cull_min: null };
}

function event(kind: string, id: string, more: Record<string, unknown> = {}): LiveEvent {
  const job = { job_id: id, name: "notes", user: "ada", uid: 1, partition: "main", submitted_at: "2026-01-01T00:00:00Z" };
  return { id: kind + id, subject: id, time: "", position: 1, data: { kind, ...job, ...more } };
}

test("events change the state of their own session alone", () => {
  const rows = [session("1", "pending"), session("2", "pending")];
  const started = withEvent(rows, event("job.running", "1", { state: "RUNNING" }));
  expect(started.map(({ state, detail }) => [state, detail])).toEqual([["starting", ""], ["pending", "its job is PENDING"]]);
  const ready = withEvent(started, event("session.ready", "1"));
  expect(ready.map(({ state }) => state)).toEqual(["ready", "pending"]);
  const requeued = withEvent(ready, event("job.requeued", "1", { state: "PENDING" }));
  expect(requeued.map(({ state }) => state)).toEqual(["pending", "pending"]);
  const ended = withEvent(requeued, event("job.timeout", "1", { state: "TIMEOUT" }));
  expect(ended.map(({ state }) => state)).toEqual(["ended", "pending"]);
});

test("events that are told again, or tell nothing new, change nothing", () => {
  const ready = [session("1", "ready")];
  expect(withEvent(ready, event("job.running", "1", { state: "RUNNING" }))).toBe(ready);
  expect(withEvent(ready, event("session.ready", "1"))).toBe(ready);
  expect(withEvent(ready, event("job.running", "2", { state: "RUNNING" }))).toBe(ready);
  expect(withEvent(ready, event("job.staged", "1", { state: "done" }))).toBe(ready);
  const ended = [session("1", "ended")];
  expect(withEvent(ended, event("session.ready", "1"))).toBe(ended);
});

test("only jobs of the person's own that a template has made may be new sessions", () => {
  const template = "notebook";
  expect(mayStart(event("job.submitted", "1", { template }), 1)).toBe(true);
  expect(mayStart(event("session.ready", "1"), 1)).toBe(true);
  expect(mayStart(event("job.submitted", "1", { template }), 2)).toBe(false);
  expect(mayStart(event("job.submitted", "1", { template: "" }), 1)).toBe(false);
  expect(mayStart(event("job.completed", "1", { template }), 1)).toBe(false);
});
