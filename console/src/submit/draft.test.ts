import { expect, test } from "vitest";
import { firstDraft, withFile } from "./draft";

test("a draft that is there gets a file of the address, once, and keeps what is written", () => {
  const written = { ...firstDraft(), script: "#!/bin/bash\nmine\n", folder: "mine", files: [{ source: "a/one", destination: "one" }] };
  const given = withFile(written, "b/two");
  expect(given).toEqual({ ...written, files: [...written.files, { source: "b/two", destination: "two" }] });
  expect(withFile(given, "b/two")).toBe(given);
});
