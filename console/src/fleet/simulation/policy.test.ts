import { describe, expect, test } from "vitest";
import type { ClusterDetail } from "../../api/schema";
import { changesOf, UNCHANGED } from "./policy";

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
