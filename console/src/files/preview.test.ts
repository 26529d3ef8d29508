import { expect, test } from "vitest";
import { asText, imageType } from "./preview";

const bytes = (text: string) => new TextEncoder().encode(text);

test("an image is known by its bytes, and nothing else is an image", () => {
  expect(imageType(new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0]))).toBe("image/png");
  expect(imageType(new Uint8Array([0xff, 0xd8, 0xff, 0xe0]))).toBe("image/jpeg");
  expect(imageType(bytes("GIF89a"))).toBe("image/gif");
  expect(imageType(bytes("RIFF1234WEBPVP8 "))).toBe("image/webp");
  for (const other of ["<svg xmlns='http://www.w3.org/2000/svg'/>", "<html>", "", "RIFF1234WAVE", "PNG"]) {
    expect(imageType(bytes(other))).toBeNull();
  }
});

test("text is UTF-8 without zero bytes, also where the end cuts a character", () => {
  expect(asText(bytes("<b>ü</b>"))).toBe("<b>ü</b>");
  expect(asText(bytes("aü").subarray(0, 2))).toBe("a");
  expect(asText(new Uint8Array([0x61, 0x00]))).toBeNull();
  expect(asText(new Uint8Array([0xff, 0xfe, 0x61]))).toBeNull();
});
