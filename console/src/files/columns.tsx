/** The columns of a folder. */

import { Checkbox } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { File as FileIcon, Folder, Link2 } from "lucide-react";
import { text } from "../texts";
import type { Column } from "../ui/tables/DataTable";
import { UserText, visible } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import { bytes } from "../ui/format";
import type { Entry } from "./queries";
import classes from "./Files.module.css";
import type { Root } from "./paths";

interface Selection {
  chosen: ReadonlySet<string>;
  toggle: (path: string) => void;
}

/** Without a selection nothing can be chosen. */
export function fileColumns(cluster: string, root: Root, selection: Selection | null): Column<Entry>[] {
  const select: Column<Entry> = {
    id: "select",
    head: "",
    width: "24px",
    cell: (entry) => (
      <Checkbox
        aria-label={text("files.select_row", { name: visible(entry.name) })}
        checked={selection?.chosen.has(entry.path) ?? false}
        onChange={() => selection?.toggle(entry.path)}
      />
    ),
  };
  return [
    ...(selection === null ? [] : [select]),
    {
      id: "name",
      head: text("files.column.name"),
      width: "minmax(180px, 4fr)",
      value: (entry) => entry.name.toLowerCase(),
      cell: (entry) => <Name cluster={cluster} root={root} entry={entry} />,
    },
    {
      id: "size",
      head: text("files.column.size"),
      width: "90px",
      numeric: true,
      value: (entry) => entry.size,
      cell: (entry) => (entry.size === null ? null : bytes(entry.size)),
    },
    {
      id: "modified",
      head: text("files.column.modified"),
      width: "120px",
      value: (entry) => (entry.modifiedAt === null ? null : Date.parse(entry.modifiedAt)),
      cell: (entry) => <Moment at={entry.modifiedAt} />,
    },
  ];
}

const ICONS = { folder: Folder, file: FileIcon, other: Link2 };

function Name({ cluster, root, entry }: { cluster: string; root: Root; entry: Entry }) {
  const Icon = ICONS[entry.kind];
  const name = <UserText cut>{entry.name}</UserText>;
  return (
    <span className={classes.name}>
      <Icon size={14} aria-hidden />
      {entry.kind === "other" ? (
        <span title={text("files.link_kind")}>{name}</span>
      ) : (
        <Link
          to="/c/$cluster/files"
          params={{ cluster }}
          search={(before) =>
            entry.kind === "folder"
              ? { ...(root === "folder" ? { root } : {}), path: entry.path }
              : { ...before, file: entry.path }
          }
        >
          {name}
        </Link>
      )}
    </span>
  );
}
