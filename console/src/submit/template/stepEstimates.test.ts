import { describe, expect, it } from "vitest";
import type { JobEstimate } from "../../api/schema";
import { ProblemError } from "../../api/problem";
import { outlookOf } from "../outlook";
import { askedInTurn, together } from "./stepEstimates";

function estimate(at_most: string | null, more: Partial<JobEstimate> = {}): JobEstimate {
  return {
    wait: "boot", cause: null, text: "", workers: [{ kind: "new", shape: "compute-xs", count: 1 }], nodes: 1, tasks: 1,
    expected_start: "2026-01-01T00:01:30Z", expected_last_start: null, time_limit_seconds: 60,
    cost: { per_hour: "0.1", at_most, total_at_most: at_most }, shadow: false, warnings: [], as_of: "2026-01-01T00:00:00Z", ...more,
  };
}

const STEPS = [
  { step_id: "get", depends_on: [] },
  { step_id: "align", depends_on: ["get"] },
  { step_id: "other", depends_on: [] },
];

const values = (...given: Parameters<typeof together>) => outlookOf(together(...given)).facts.map(({ value }) => value);

describe("the estimates of the steps of a workflow", () => {
  it("are added up, and its start is that of the first step that can start", () => {
    const now = estimate("0.5", { wait: "nothing", workers: [{ kind: "node", shape: "general-xs", count: 1 }] });
    const outlook = outlookOf(together(STEPS, [estimate("0.125"), now, estimate("0.25", { expected_start: "2026-01-01T00:00:20Z" })]));
    expect(outlook.facts.map(({ value }) => value)).toEqual(["1 × compute-xs, new, 1 × general-xs, running", "0.875 USD", "starts in 20 s"]);
    expect([outlook.promises, outlook.atMost]).toEqual([["at most 0.875 USD", "starts in 20 s"], 0.875]);
  });

  it("count all tasks of a step that is an array, and have no maximum where a step has no time limit", () => {
    const array = estimate("0.1", { tasks: 10, cost: { per_hour: "0.1", at_most: "0.1", total_at_most: "1.0" } });
    expect(together(STEPS, [array, estimate("0.1"), estimate("0.1")]).atMost).toBeCloseTo(1.2);
    const outlook = outlookOf(together(STEPS, [array, estimate(null), estimate("0.1")]));
    expect(outlook.facts[1]?.value).toBe("no time limit");
    expect([outlook.promises, outlook.atMost]).toEqual([["starts in 1 min 30 s"], null]);
  });

  it("say of how many steps they are not known, and why", () => {
    const refused = new ProblemError({ type: "about:blank", title: "Refused", status: 422, detail: "no worker fits", request_id: "" });
    const outlook = outlookOf(together(STEPS, [estimate("0.1"), refused, estimate("0.1", { cost: null })]));
    expect(outlook.facts[1]).toEqual({ name: "Maximum cost of all 3 steps", value: "0.100 USD, not known for 2 of 3 steps" });
    expect(outlook.promises).toEqual(["at most 0.100 USD for 1 of 3 steps", "starts in 1 min 30 s"]);
    expect([outlook.atMost, outlook.said?.text]).toEqual([undefined, "Step align: no worker fits"]);
  });

  it("are not known yet while they are asked for, and not known where none has an answer", () => {
    expect(values(STEPS, undefined)).toEqual(["not known yet", "not known yet", "not known yet"]);
    expect(values(STEPS, [])).toEqual(Array(3).fill("not known for 3 of 3 steps"));
  });

  it("of steps without named ones before them start with the first", () => {
    const chain = [{ step_id: "a", depends_on: null }, { step_id: "b", depends_on: null }];
    const first = estimate("0.1");
    expect(together(chain, [first, estimate("0.1", { wait: "nothing" })]).first).toBe(first);
  });
});

describe("several estimates", () => {
  it("are asked for two at a time, each at its place, whatever becomes of the others", async () => {
    let open = 0;
    let most = 0;
    const found = await askedInTurn(
      ["0", "1", "2", "3", "4"],
      async (each) => {
        open += 1;
        most = Math.max(most, open);
        await Promise.resolve();
        open -= 1;
        if (each === "2") throw new Error("refused");
        return estimate(each);
      },
      new AbortController().signal,
    );
    expect(most).toBe(2);
    expect(found.map((each) => (each instanceof Error ? each.message : each.cost?.at_most))).toEqual(["0", "1", "refused", "3", "4"]);
  });

  it("are no more asked for once nobody wants them", async () => {
    const ended = new AbortController();
    const asked: string[] = [];
    await askedInTurn(
      ["0", "1", "2", "3", "4"],
      (each) => {
        asked.push(each);
        ended.abort();
        return Promise.resolve(estimate("0"));
      },
      ended.signal,
    );
    expect(asked.length).toBeLessThanOrEqual(2);
  });
});
