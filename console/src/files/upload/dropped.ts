/** The files that somebody chose or dropped, with those in folders, under their paths. */

import { join } from "../paths";

export interface NamedFile {
  path: string;
  file: File;
}

export interface Chosen {
  files: NamedFile[];
  /** Whether there were more than one upload takes. */
  more: boolean;
}

/** The most files of one drop. */
export const MOST_FILES = 10_000;

/** The files of an input, below a folder of the bucket. */
export function chosenFiles(list: Iterable<File>, folder: string): Chosen {
  const all = [...list];
  const files = all.slice(0, MOST_FILES).map((file) => ({ path: join(folder, file.webkitRelativePath || file.name), file }));
  return { files, more: all.length > MOST_FILES };
}

/** The files of a drop, below a folder of the bucket. Call it while the event is handled: its data are gone afterwards. */
export async function droppedFiles(data: DataTransfer, folder: string): Promise<Chosen> {
  const entries: FileSystemEntry[] = [];
  const files: NamedFile[] = [];
  for (const item of data.items) {
    const entry = item.webkitGetAsEntry();
    // What comes from another program than one for files may be a file that stands nowhere.
    const file = entry === null ? item.getAsFile() : null;
    if (entry !== null) entries.push(entry);
    if (file !== null) files.push({ path: join(folder, file.name), file });
  }
  // Breadth first, so that nothing is as deep as the folders are.
  const queue: { entry: FileSystemEntry; folder: string }[] = entries.map((entry) => ({ entry, folder }));
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    if (files.length >= MOST_FILES) return { files, more: true };
    const path = join(next.folder, next.entry.name);
    if (next.entry.isFile) files.push({ path, file: await fileOf(next.entry as FileSystemFileEntry) });
    else {
      const children = await childrenOf(next.entry as FileSystemDirectoryEntry, MOST_FILES);
      queue.push(...children.map((entry) => ({ entry, folder: path })));
    }
  }
  return { files, more: false };
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

/** A folder's entries, which browsers tell a hundred at a time. */
async function childrenOf(folder: FileSystemDirectoryEntry, most: number): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  while (all.length <= most) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) break;
    all.push(...some);
  }
  return all;
}

/** The names in the folder that an upload to it writes to: of its files, and of the folders that it brings. */
export function writtenNames(files: readonly NamedFile[], folder: string): Set<string> {
  const begin = folder === "" ? 0 : folder.length + 1;
  return new Set(files.map(({ path }) => path.slice(begin).split("/", 1)[0] ?? ""));
}
