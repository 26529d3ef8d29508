import { expect, test } from "vitest";
import { dayBefore, exported, filtered, jobOf, named, readAudit, span, type AuditEntry } from "./audit";

function entry(number: number, action = "job.submitted", actor = "ada"): AuditEntry {
  return { time: "2026-01-01T00:00:00Z", actor, action, subject: String(number), owner: "", detail: "", event_id: `e${number}` };
}

function stream(...chunks: string[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(encoder.encode(chunk) as Uint8Array<ArrayBuffer>);
      controller.close();
    },
  });
}

test("lines are read wherever they are cut, the newest first", async () => {
  const lines = [1, 2, 3].map((number) => `${JSON.stringify(entry(number))}\n`).join("");
  const audit = await readAudit(stream(lines.slice(0, 50), lines.slice(50, 130), lines.slice(130)));
  expect(audit).toEqual({ entries: [entry(3), entry(2), entry(1)], cut: false, unreadable: 0 });
});

test("a line that cannot be read hides no other one", async () => {
  const audit = await readAudit(stream(`{\n${JSON.stringify(entry(1))}\n{"time": 7}\n`, JSON.stringify(entry(2))));
  expect(audit.entries.map(({ subject }) => subject)).toEqual(["2", "1"]);
  expect(audit.unreadable).toBe(2);
});

test("a long audit is cut, and says so", async () => {
  const lines = Array.from({ length: 20 }, (_, number) => `${JSON.stringify(entry(number))}\n`);
  expect(await readAudit(stream(...lines), 5)).toMatchObject({ cut: true, entries: { length: 5 } });
});

test("an action, a group of actions, and a text", () => {
  const entries = [entry(1, "member.changed"), entry(2, "member.deleted", "grace"), entry(3)];
  const subjects = (action?: string, find?: string) => filtered(entries, action, find).map(({ subject }) => subject);
  expect(subjects()).toEqual(["1", "2", "3"]);
  expect(subjects("member.changed")).toEqual(["1"]);
  expect(subjects("member.")).toEqual(["1", "2"]);
  expect(subjects(undefined, "GRACE")).toEqual(["2"]);
  expect(subjects(undefined, "Member")).toEqual(["1", "2"]);
});

test("a span has both of its days", () => {
  const { after, before } = span("2026-03-01", "2026-03-02");
  expect(Date.parse(before) - Date.parse(after)).toBe(2 * 86_400_000);
  expect(dayBefore(1, new Date(2026, 2, 1, 12))).toBe("2026-02-28");
});

test("an export has the filters of the page", () => {
  const days = { from: "2026-03-01", to: "2026-03-02" };
  const parameters = (shown: { action?: string; find?: string }) => Object.fromEntries(exported({ ...days, ...shown }, "csv"));
  expect(parameters({})).toEqual({ format: "csv", ...span("2026-03-01", "2026-03-02") });
  expect(parameters({ action: "quota.", find: " ada & co " })).toMatchObject({ kind: "quota.*", search: "ada & co" });
  expect(parameters({ action: "member.changed", find: " " })).toMatchObject({ kind: "member.changed" });
  expect(parameters({ find: " " })).not.toHaveProperty("search");
});

test("submits, actions and links lead to their job", () => {
  const job = (action: string, subject: string, detail = "") => jobOf({ action, subject, detail });
  expect(job("job.submitted", "42", "7")).toBe("42");
  expect(job("action.cancel", "42_7")).toBe("42_7");
  expect(job("link.created", "60a396739613c812", "42")).toBe("42");
  expect(job("token.revoked", "42", "7")).toBeNull();
  expect(job("action.cancel", "4 2")).toBeNull();
});

test("an open invitation is named by its address", () => {
  const invitation = { ...entry(1, "invitation.created"), subject: "2da4" };
  const open = [{ id: "2da4", email: "g@acme.example" }];
  expect(named([invitation], open)).toEqual([{ ...invitation, detail: "g@acme.example" }]);
  expect(named([invitation], [])).toEqual([invitation]);
  expect(named([{ ...invitation, action: "token.created" }], open)[0]?.detail).toBe("");
});
