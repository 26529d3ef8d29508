import { describe, expect, it } from "vitest";
import { isName, queryOf, withView } from "./views";

const view = (name: string) => ({ name, page: "jobs", query: "", saved_at: "2026-01-01T00:00:00Z" });

describe("saved views", () => {
  it("have names that the gateway takes", () => {
    expect(["mine", "failed, of Grace's", "ä b", "x".repeat(60)].every(isName)).toBe(true);
    expect(["", ".hidden", "a/b", "a\nb", "x".repeat(61)].some(isName)).toBe(false);
  });

  it("are queries of addresses, without what is before them", () => {
    expect(queryOf("?find=x&states=%5B%22failed%22%5D")).toBe("find=x&states=%5B%22failed%22%5D");
    expect(queryOf("")).toBe("");
    expect(queryOf(`?find=${"x".repeat(2_000)}`)).toBeNull();
    expect(queryOf("?find=ä")).toBeNull();
  });

  it("are in the order of their names, each once", () => {
    const views = withView(withView([view("b")], view("a")), view("b"));
    expect(views.map(({ name }) => name)).toEqual(["a", "b"]);
  });
});
