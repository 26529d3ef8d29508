import { afterEach, expect, test, vi } from "vitest";
import { api } from "../api/client";
import { archivePage } from "./archive";

afterEach(() => void vi.restoreAllMocks());

const QUERY = { limit: 1, kinds: ["scale.decided"], subject: null, since: null, until: null };
const EVENT = { id: "e1", subject: "desired", time: "2026-01-01T00:00:00Z", data: { kind: "scale.decided" } };

/** Answers with so many empty pages that have a cursor, and then with an event. */
function archive(empty: number): string[] {
  const cursors: string[] = [];
  const answer = (_path: string, { params }: { params: { query: { cursor?: string } } }) => {
    cursors.push(params.query.cursor ?? "");
    const full = cursors.length > empty;
    const response = new Response(null, { headers: { "Event-Position": String(70 + cursors.length) } });
    return Promise.resolve({ data: { events: full ? [EVENT] : [], cursor: full ? null : `c${cursors.length}` }, response });
  };
  vi.spyOn(api, "GET").mockImplementation(answer as unknown as typeof api.GET);
  return cursors;
}

test("an empty page with a cursor is read on, and the position is that of the first read", async () => {
  const cursors = archive(3);
  const page = await archivePage("main", QUERY, { cursor: null, until: null }, new AbortController().signal);
  expect(page.events).toHaveLength(1);
  expect(page.position).toBe(71);
  expect(page.next).toBeNull();
  expect(cursors).toEqual(["", "c1", "c2", "c3"]);
});

test("a page that stays empty has an end, and tells where to read on", async () => {
  const cursors = archive(1_000);
  const page = await archivePage("main", QUERY, { cursor: null, until: null }, new AbortController().signal);
  expect(cursors).toHaveLength(10);
  expect(page.next).toEqual({ cursor: "c10", until: null });
});
