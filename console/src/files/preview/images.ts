/** What the first bytes of an image tell: which of four kinds it is, and its size in pixels. Nothing is decoded. */

const SIGNATURES = [
  { type: "image/png", at: 0, bytes: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a] },
  { type: "image/jpeg", at: 0, bytes: [0xff, 0xd8, 0xff] },
  { type: "image/gif", at: 0, bytes: [0x47, 0x49, 0x46, 0x38] },
  { type: "image/webp", at: 8, bytes: [0x57, 0x45, 0x42, 0x50] },
] as const;

export type ImageType = (typeof SIGNATURES)[number]["type"];

export interface ImageSize {
  /** In pixels. */
  width: number;
  height: number;
}

/** The type of an image by its first bytes; null for anything else. */
export function imageType(first: Uint8Array): ImageType | null {
  const found = SIGNATURES.find(({ at, bytes }) => bytes.every((byte, index) => first[at + index] === byte));
  return found?.type ?? null;
}

/** The size of an image by its header; null where there is none. */
export function imageSize(image: Uint8Array): ImageSize | null {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  try {
    switch (imageType(image)) {
      case "image/png":
        return { width: view.getUint32(16), height: view.getUint32(20) };
      case "image/gif":
        return ofGif(view);
      case "image/jpeg":
        return ofJpeg(view);
      case "image/webp":
        return ofWebp(view);
      case null:
        return null;
    }
  } catch (error) {
    // The header is cut off.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** The screen, or the first picture where that is larger: browsers make the screen as large. */
function ofGif(view: DataView): ImageSize {
  const screen = { width: view.getUint16(6, true), height: view.getUint16(8, true) };
  const colors = view.getUint8(10);
  let at = 13 + (colors & 0x80 ? 3 * 2 ** ((colors & 7) + 1) : 0);
  while (view.getUint8(at) === 0x21) {
    // An extension: its kind, and blocks up to an empty one.
    for (at += 2; view.getUint8(at) !== 0; at += view.getUint8(at) + 1);
    at += 1;
  }
  if (view.getUint8(at) !== 0x2c) return screen;
  return {
    width: Math.max(screen.width, view.getUint16(at + 1, true) + view.getUint16(at + 5, true)),
    height: Math.max(screen.height, view.getUint16(at + 3, true) + view.getUint16(at + 7, true)),
  };
}

/** The first frame header; the segments before it are passed over by their lengths. */
function ofJpeg(view: DataView): ImageSize | null {
  let at = 2;
  for (;;) {
    if (view.getUint8(at) !== 0xff) return null;
    while (view.getUint8(at) === 0xff) at += 1;
    const marker = view.getUint8(at);
    at += 1;
    // Of C0 to CF all but the tables of Huffman (C4), of arithmetic coding (CC), and an extension (C8) begin a frame.
    if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc) {
      return { height: view.getUint16(at + 3), width: view.getUint16(at + 5) };
    }
    const alone = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    if (marker === 0xd9 || marker === 0xda || marker === 0x00) return null;
    if (!alone) at += Math.max(2, view.getUint16(at));
  }
}

function ofWebp(view: DataView): ImageSize | null {
  switch (view.getUint32(12)) {
    case 0x56503820: // "VP8 ": lossy
      return view.getUint16(23) === 0x9d01 ? { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff } : null;
    case 0x5650384c: {
      // "VP8L": without loss
      const bits = view.getUint32(21, true);
      return view.getUint8(20) === 0x2f ? { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 } : null;
    }
    case 0x56503858: // "VP8X": with more parts
      return { width: (view.getUint32(24, true) & 0xffffff) + 1, height: (view.getUint32(26, true) >>> 8) + 1 };
    default:
      return null;
  }
}
