/** Picks a file of the bucket. Each folder that is opened takes the focus, and tells how much is in it. */

import { Button, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { File as FileIcon, Folder } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { nameOf } from "../files/paths";
import { text } from "../texts";
import { Dialog } from "../ui/Dialog";
import { UserText } from "../ui/UserText";
import { bytes, count } from "../ui/format";
import { ProblemView } from "../ui/ProblemView";
import { folderQuery } from "./queries";
import classes from "./SubmitPage.module.css";

interface Props {
  cluster: string;
  close: () => void;
  pick: (path: string) => void;
}

interface Place {
  path: string;
  cursor: string | null;
}

export function FilePicker({ cluster, close, pick }: Props) {
  return (
    <Dialog close={close} title={text("submit.files.pick")}>
      <Browser cluster={cluster} pick={pick} close={close} />
    </Dialog>
  );
}

function Browser({ cluster, pick, close }: Props) {
  const [place, setPlace] = useState<Place>({ path: "", cursor: null });
  const page = useQuery(folderQuery(cluster, place.path, place.cursor));
  const { path } = place;
  const upper = path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
  const open = (folder: string) => setPlace({ path: folder, cursor: null });
  const name = path === "" ? text("submit.files.areas") : path;
  const entries = page.data === undefined ? undefined : page.data.folders.length + page.data.files.length;
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Button variant="default" disabled={path === ""} onClick={() => open(upper)}>
          {text("submit.files.up")}
        </Button>
        <PlaceHeading place={place} name={name} />
      </Group>
      {page.isError ? <ProblemView error={page.error} retry={() => void page.refetch()} /> : null}
      <ul className={classes.picks} aria-busy={page.isPending}>
        {page.data?.folders.map((folder) => (
          <li key={folder}>
            <button type="button" onClick={() => open(folder)}>
              <Group gap={8} wrap="nowrap">
                <Folder size={16} aria-label={text("submit.files.is_folder")} />
                <UserText>{nameOf(folder)}</UserText>
              </Group>
            </button>
          </li>
        ))}
        {page.data?.files.map((file) => (
          <li key={file.path}>
            <button
              type="button"
              onClick={() => {
                pick(file.path);
                close();
              }}
            >
              <Group gap={8} wrap="nowrap">
                <FileIcon size={16} aria-hidden />
                <UserText>{nameOf(file.path)}</UserText>
              </Group>
              <span className="number">{bytes(file.size)}</span>
            </button>
          </li>
        ))}
      </ul>
      {/* In the dialog: readers do not say what changes behind it. */}
      <Text size="sm" c="dimmed" role="status" mih="1lh">
        {entries === undefined ? null : (
          <UserText key={`${path}\n${place.cursor}`}>{entriesText(name, entries, Boolean(page.data?.next_cursor))}</UserText>
        )}
      </Text>
      <Group gap="xs">
        {place.cursor === null ? null : (
          <Button variant="default" onClick={() => open(path)}>
            {text("submit.files.first")}
          </Button>
        )}
        {page.data?.next_cursor ? (
          <Button variant="default" onClick={() => setPlace({ path, cursor: page.data.next_cursor })}>
            {text("submit.files.next")}
          </Button>
        ) : null}
      </Group>
    </Stack>
  );
}

/** The folder that is shown. It has the focus at first, and after each step: the button of the step is gone then. */
function PlaceHeading({ place, name }: { place: Place; name: string }) {
  const heading = useRef<HTMLHeadingElement>(null);
  const shown = useRef(place);
  useEffect(() => {
    if (shown.current === place) return;
    shown.current = place;
    heading.current?.focus();
  }, [place]);
  return (
    <Title ref={heading} order={3} fz="md" fw={400} tabIndex={-1} data-autofocus>
      <UserText>{name}</UserText>
    </Title>
  );
}

function entriesText(path: string, entries: number, more: boolean): string {
  if (entries === 0) return text("submit.files.empty", { path });
  return text(more ? "submit.files.entries_more" : "submit.files.entries", { path, count: entries, shown: count(entries) });
}
