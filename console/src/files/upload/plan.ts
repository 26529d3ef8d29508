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

const LEAST_PART_BYTES = 5 * 1024 * 1024;
const MOST_PARTS = 10_000;

/**
 * A size of parts that fits those that the bucket has of a file of `size` bytes; null where they are of a file of
 * another size, or where S3 would take no file of such parts. Which bytes a part has, its SHA-256 tells.
 */
export function partSizeOf(size: number, parts: readonly KnownPart[]): number | null {
  const partSize = Math.max(0, ...parts.map((part) => part.size));
  const count = partSize === 0 ? 0 : partCount(size, partSize);
  if (count === 0 || count > MOST_PARTS || (count > 1 && partSize < LEAST_PART_BYTES)) return null;
  const fits = parts.every(({ number, size: has }) => {
    const { begin, end } = partRange(number, size, partSize);
    return begin < size && end - begin === has;
  });
  return fits ? partSize : null;
}
