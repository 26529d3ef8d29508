/** Paths of files as the API writes them: names with slashes between them, no slash at either end. Pure. */

/** Where files are: in the cluster's bucket, or in the folder that its workers share. */
export type Root = "bucket" | "folder";

/** The area of the bucket that everybody reads and admins write. */
export const SHARED = "shared";

export function join(folder: string, name: string): string {
  return folder === "" ? name : `${folder}/${name}`;
}

export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

export interface Crumb {
  name: string;
  path: string;
}

/** The folders from the root to a path, the path itself last; none for the root. */
export function crumbs(path: string): Crumb[] {
  const names = path === "" ? [] : path.split("/");
  return names.map((name, index) => ({ name, path: names.slice(0, index + 1).join("/") }));
}

const ADMINS: readonly string[] = ["admin", "owner"];

/** Whether a person of this role may write to a folder of a root. The shared folder is read only here. */
export function mayWrite(root: Root, path: string, role: string): boolean {
  if (root === "folder" || path === "" || role === "viewer") return false;
  return path.split("/", 1)[0] !== SHARED || mayShare(role);
}

/** Whether a person of this role may write to the area `shared`. */
export function mayShare(role: string): boolean {
  return ADMINS.includes(role);
}
