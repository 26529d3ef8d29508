import { expect, test } from "vitest";
import { asText } from "./preview";

const bytes = (text: string) => new TextEncoder().encode(text);

test("text is UTF-8 without zero bytes, also where the end cuts a character", () => {
  expect(asText(bytes("<b>ü</b>"))).toBe("<b>ü</b>");
  expect(asText(bytes("aü").subarray(0, 2))).toBe("a");
  expect(asText(new Uint8Array([0x61, 0x00]))).toBeNull();
  expect(asText(new Uint8Array([0xff, 0xfe, 0x61]))).toBeNull();
});
