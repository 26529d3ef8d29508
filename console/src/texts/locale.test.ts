import { expect, test } from "vitest";
import { localeOf } from "./locale";

test.each([
  [["en-GB", "en"], "en-GB"],
  [["de-DE", "en-GB", "en"], "en-GB"],
  [["de-DE", "fr"], "en"],
  [["eng-nonsense"], "en"],
  [[], "en"],
])("viewers who prefer %j read dates as %s beside English texts", (preferred, locale) => {
  expect(localeOf("en", preferred)).toBe(locale);
});
