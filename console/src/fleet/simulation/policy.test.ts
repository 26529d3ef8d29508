import { describe, expect, test } from "vitest";
import type { ClusterDetail } from "../../api/schema";
import { changesOf, presentOf, UNCHANGED } from "./policy";

const SHAPES = [
  { name: "general-xs", most: null },
  { name: "general-large", most: 3 },
  { name: "l4-small", most: 2 },
] as ClusterDetail["shapes"];

describe("the changes of a policy", () => {
  test("are none where nothing is otherwise", () => {
    expect(changesOf(UNCHANGED, SHAPES)).toBeNull();
  });

  test("keep the limits of other shapes", () => {
    const changes = changesOf({ ...UNCHANGED, without: ["general-xs", "l4-small"] }, SHAPES);

    expect(changes).toEqual({ most: { "general-large": 3, "general-xs": 0, "l4-small": 0 } });
  });

  test("tell no limit from a limit as it is", () => {
    expect(changesOf({ ...UNCHANGED, unlimited: true, usd: 3 }, SHAPES)).toEqual({ usd_per_hour: null });
    expect(changesOf({ ...UNCHANGED, usd: 3, workers: 0 }, SHAPES)).toEqual({ usd_per_hour: 3, max_workers: 0 });
  });
});

describe("the present values of a policy", () => {
  const detail = (policy: ClusterDetail["policy"], shapes = SHAPES) => presentOf({ max_workers: 24, shapes, policy: policy ?? null });

  test("are told for each field", () => {
    expect(detail({ name: "packing", idle_seconds: 150, usd_per_hour: "0.05" })).toEqual({
      workers: "now 24",
      usd: "now 0.0500",
      name: "now Bin packing for the least cost",
      idle: "now 150 s",
      without: "now none",
    });
  });

  test("name the shapes that no worker may have, and a limit that there is not", () => {
    const shapes = [...SHAPES, { name: "l4-large", most: 0 }] as ClusterDetail["shapes"];

    expect(detail({ name: "family", idle_seconds: 5, usd_per_hour: null }, shapes)).toMatchObject({ usd: "now no limit", without: "now l4-large" });
  });

  test("are unknown where an earlier gateway does not tell them", () => {
    expect(detail(null)).toMatchObject({ workers: "now 24", usd: null, name: null, idle: null });
  });
});
