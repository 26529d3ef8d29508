import { expect, test } from "vitest";
import { firstDraft, withFile, wouldReplace } from "./draft";

test("a draft that is there gets a file of the address, once, and keeps what is written", () => {
  const written = { ...firstDraft(), script: "#!/bin/bash\nmine\n", folder: "mine", files: [{ source: "a/one", destination: "one" }] };
  const given = withFile(written, "b/two");
  expect(given).toEqual({ ...written, files: [...written.files, { source: "b/two", destination: "two" }] });
  expect(withFile(given, "b/two")).toBe(given);
});

test("a script asks only before it replaces what somebody wrote", () => {
  const first = firstDraft();
  expect(wouldReplace(first, "old")).toBe(false);
  expect(wouldReplace({ ...first, script: " \n" }, "old")).toBe(false);
  expect(wouldReplace({ ...first, script: "old" }, "old")).toBe(false);
  expect(wouldReplace({ ...first, script: "mine" }, "old")).toBe(true);
  expect(wouldReplace({ ...first, files: [{ source: "a", destination: "a" }] }, "old")).toBe(true);
});
