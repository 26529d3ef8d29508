import { expect, test } from "vitest";
import { imageSize, imageType } from "./images";
import { IMAGE_PIXELS, isShown } from "./preview";

const bytes = (text: string) => new TextEncoder().encode(text);
/** Bytes from text of one byte each and numbers. */
const joined = (...parts: (string | number)[]) =>
  new Uint8Array(parts.flatMap((part) => (typeof part === "number" ? [part] : [...part].map((each) => each.charCodeAt(0)))));
const big = (value: number, count: number) => Array.from({ length: count }, (_, at) => (value >>> (8 * (count - 1 - at))) & 0xff);
const little = (value: number, count: number) => big(value, count).toReversed();

const png = (width: number, height: number) =>
  joined(0x89, "PNG\r\n\u001a\n", ...big(13, 4), "IHDR", ...big(width, 4), ...big(height, 4), 8, 6, 0, 0, 0);
const gif = (width: number, height: number) =>
  joined("GIF89a", ...little(width, 2), ...little(height, 2), 0x80, 0, 0, ...Array.from({ length: 6 }, () => 0), 0x3b);
const jpeg = (width: number, height: number) =>
  joined(0xff, 0xd8, 0xff, 0xe1, ...big(6, 2), 0xff, 0xc0, 1, 1, 0xff, 0xff, 0xc4, ...big(3, 2), 0, 0xff, 0xc2, ...big(11, 2), 8, ...big(height, 2), ...big(width, 2), 1, 1, 1, 1);
const webp = (kind: string, ...rest: number[]) => joined("RIFF", ...little(0, 4), "WEBP", kind, ...little(0, 4), ...rest);
const vp8 = (width: number, height: number) => webp("VP8 ", 0, 0, 0, 0x9d, 0x01, 0x2a, ...little(width, 2), ...little(height, 2));
const vp8l = (width: number, height: number) => webp("VP8L", 0x2f, ...little((width - 1) | ((height - 1) << 14), 4));
const vp8x = (width: number, height: number) => webp("VP8X", 0, 0, 0, 0, ...little(width - 1, 3), ...little(height - 1, 3));

test("an image is known by its bytes, and nothing else is an image", () => {
  expect(imageType(new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0]))).toBe("image/png");
  expect(imageType(new Uint8Array([0xff, 0xd8, 0xff, 0xe0]))).toBe("image/jpeg");
  expect(imageType(bytes("GIF89a"))).toBe("image/gif");
  expect(imageType(bytes("RIFF1234WEBPVP8 "))).toBe("image/webp");
  for (const other of ["<svg xmlns='http://www.w3.org/2000/svg'/>", "<html>", "", "RIFF1234WAVE", "PNG"]) {
    expect(imageType(bytes(other))).toBeNull();
  }
});

test("the size of an image is read from its header", () => {
  for (const image of [png, gif, jpeg, vp8, vp8l, vp8x]) expect(imageSize(image(640, 480))).toEqual({ width: 640, height: 480 });
  expect(imageSize(vp8x(16_000_000, 3))).toEqual({ width: 16_000_000, height: 3 });
  expect(imageSize(vp8l(16_384, 16_384))).toEqual({ width: 16_384, height: 16_384 });
});

test("a GIF is as large as its first picture needs", () => {
  const extension = [0x21, 0xf9, 4, 0, 0, 0, 0, 0];
  const picture = [0x2c, ...little(1, 2), ...little(2, 2), ...little(60_000, 2), ...little(50_000, 2), 0];
  const small = joined("GIF89a", ...little(1, 2), ...little(1, 2), 0, 0, 0, ...extension, ...picture);
  expect(imageSize(small)).toEqual({ width: 60_001, height: 50_002 });
});

test("an image that is too large, or does not say how large, is not shown", () => {
  expect(isShown(png(10_000, IMAGE_PIXELS / 10_000))).toBe(true);
  expect(isShown(png(10_000, IMAGE_PIXELS / 10_000 + 1))).toBe(false);
  expect(isShown(png(4_294_967_295, 4_294_967_295))).toBe(false);
  expect(isShown(png(0, 1))).toBe(false);
  for (const image of [gif, jpeg]) expect(isShown(image(65_535, 65_535))).toBe(false);
  for (const image of [png, jpeg, vp8, vp8l, vp8x]) {
    const whole = image(640, 480);
    for (let length = 0; length < 20; length += 1) expect(imageSize(whole.subarray(0, length))).toBeNull();
  }
  expect(isShown(joined(0xff, 0xd8, 0xff, 0xda, 0, 2))).toBe(false);
});
