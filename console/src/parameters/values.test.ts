import { describe, expect, it } from "vitest";
import { readTable } from "./table";
import { firstValues, keptOf, keyOf, ofService, requestOf, type Part } from "./values";

function part(given: Partial<Part>): Part {
  return {
    group: "params", name: "x", label: "x", widget: "text", required: false, advanced: false, description: "",
    default: null, options: [], min: null, max: null, format: "csv", columns: [], ...given,
  };
}

describe("the values of a form", () => {
  it("are kept without the secrets of an environment, and nothing else is cut", () => {
    const parts = [part({ name: "env", widget: "env_map" }), part({ name: "other", widget: "env_map" }), part({ name: "script", widget: "textarea" })];
    const given = { "params.env": "A=1\nMY_TOKEN=t", "params.script": "#!/bin/bash\nMY_TOKEN=$(cat token)" };
    expect(keptOf(parts, given)).toEqual({ ...given, "params.env": "A=1\nMY_TOKEN" });
  });

  it.each<[Partial<Part>, string, unknown]>([
    [{ widget: "number", min: 1, max: 10 }, "5", 5],
    [{ widget: "number" }, "1e3", 1000],
    [{ widget: "bool" }, "true", true],
    [{ widget: "bool" }, "false", false],
    [{ widget: "enum", options: [1, "a", true] }, "1", 1],
    [{ widget: "enum", options: [1, "a", true] }, "true", true],
    [{ widget: "env_map" }, "A=1\nB=x=y\n\n", { A: "1", B: "x=y" }],
    [{ widget: "json_object" }, '{"a": [1]}', { a: [1] }],
    [{ widget: "json" }, "[1]", "[1]"],
    [{ widget: "text" }, "a b", "a b"],
    [{ widget: "textarea" }, "a\nb", "a\nb"],
  ])("%j takes %j", (given, value, wanted) => {
    const known = part(given);
    const { request, problems } = requestOf([known], { [keyOf(known)]: value });
    expect(problems).toEqual({});
    expect(request).toEqual({ params: { x: wanted }, inputs: {} });
  });

  it.each<[Partial<Part>, string]>([
    [{ widget: "number", min: 1 }, "0"],
    [{ widget: "number", max: 1 }, "2"],
    [{ widget: "number" }, "one"],
    [{ widget: "number" }, "0x10"],
    [{ widget: "enum", options: ["a"] }, "b"],
    [{ widget: "env_map" }, "1A=3"],
    [{ widget: "env_map" }, "nothing"],
    [{ widget: "json_object" }, "[1]"],
    [{ widget: "json" }, "{"],
    [{ widget: "text" }, "a\nb"],
    [{ required: true }, ""],
  ])("%j refuses %j", (given, value) => {
    const known = part(given);
    expect(Object.keys(requestOf([known], { [keyOf(known)]: value }).problems)).toEqual(["params.x"]);
  });

  it("begins with the defaults, which are left to the definition", () => {
    const parts = [part({ name: "a", default: "7", widget: "number" }), part({ name: "b", widget: "bool" }), part({ name: "c", required: true, default: "z" })];
    const { request, problems } = requestOf(parts, firstValues(parts));
    expect(problems).toEqual({});
    expect(request.params).toEqual({ b: false });
  });

  it("finds the part that the service speaks of", () => {
    expect(ofService([part({ name: "minutes" })], "minutes: it must be a number")).toEqual({ "params.minutes": "it must be a number" });
    expect(ofService([part({ name: "s1.minutes" })], "s1.minutes: no")).toEqual({ "params.s1.minutes": "no" });
    expect(ofService([part({})], "there is no template x")).toBeNull();
  });
});

describe("a table", () => {
  it("is read as the service reads it", () => {
    const table = readTable('\ufeffsample,size\r\n"a,""1\nx",10\n\nb,20\n', "csv", ["sample", "lane"]);
    expect(table).toEqual({ columns: ["sample", "size"], count: 2, rows: [['a,"1\nx', "10"], ["b", "20"]], missing: ["lane"] });
    expect(readTable("", "csv", []).count).toBe(0);
  });

  it("is bounded", () => {
    const begin = process.cpuUsage();
    expect(readTable(`a\n${"1\n".repeat(1_000_000)}`, "csv", []).count).toBeLessThanOrEqual(1001);
    expect(readTable(",".repeat(1_000_000), "csv", []).columns.length).toBe(100);
    expect(readTable(`"${"x".repeat(500_000)}`, "csv", []).count).toBe(0);
    // Microseconds of the processor, so that a busy machine changes nothing.
    expect(process.cpuUsage(begin).user).toBeLessThan(10_000_000);
  }, 120_000);
});
