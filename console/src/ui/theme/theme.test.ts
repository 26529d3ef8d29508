import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { theme } from "./theme";

const SOURCES = join(import.meta.dirname, "..", "..");
const FIELD = /^(Autocomplete|Checkbox|ColorInput|FileInput|JsonInput|MultiSelect|NativeSelect|NumberInput|PasswordInput|PinInput|Radio|Select|Switch|TagsInput|TextInput|Textarea)$/;

test("fields of all kinds have one height, so that neighbours line up", () => {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".tsx"));
  const imported = files.flatMap((file) => {
    const [, names = ""] = /import \{([^}]*)\} from "@mantine\/core"/.exec(readFileSync(join(SOURCES, file), "utf8")) ?? [];
    return names.split(",").map((name) => name.trim());
  });
  const fields = [...new Set(imported)].filter((name) => FIELD.test(name)).toSorted();

  expect(fields).toContain("Autocomplete");
  for (const field of fields) expect([field, theme.components?.[field]?.defaultProps]).toMatchObject([field, { size: "xs" }]);
});
