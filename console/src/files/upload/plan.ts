/** How a file is cut into parts, and which of them the bucket has already. Pure. */

export interface KnownPart {
  /** From 1 on. */
  number: number;
  /** In bytes. */
  size: number;
}

export interface Range {
  /** In bytes; the end is not part of it. */
  begin: number;
  end: number;
}

export function partCount(size: number, partSize: number): number {
  return Math.ceil(size / partSize);
}

/** The bytes of a part. */
export function partRange(number: number, size: number, partSize: number): Range {
  return { begin: (number - 1) * partSize, end: Math.min(number * partSize, size) };
}

/**
 * The size of parts by which an upload of a file of `size` bytes was cut; null where these parts tell none, or are of
 * a file of another size.
 */
export function cutOf(size: number, parts: readonly KnownPart[]): number | null {
  const partSize = Math.max(0, ...parts.map((part) => part.size));
  if (partSize === 0) return null;
  const fits = parts.every(({ number, size: has }) => {
    const { begin, end } = partRange(number, size, partSize);
    return begin < size && end - begin === has;
  });
  return fits ? partSize : null;
}
