/** Picks a file of the bucket. */

import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { File as FileIcon, Folder } from "lucide-react";
import { useState } from "react";
import { text } from "../texts";
import { UserText } from "../ui/UserText";
import { bytes } from "../ui/format";
import { ProblemView } from "../ui/ProblemView";
import { folderQuery } from "./queries";
import classes from "./SubmitPage.module.css";

interface Props {
  cluster: string;
  opened: boolean;
  close: () => void;
  pick: (path: string) => void;
}

export function FilePicker({ cluster, opened, close, pick }: Props) {
  return (
    <Modal opened={opened} onClose={close} title={text("submit.files.pick")}>
      {opened ? <Browser cluster={cluster} pick={pick} close={close} /> : null}
    </Modal>
  );
}

function Browser({ cluster, pick, close }: Omit<Props, "opened">) {
  const [place, setPlace] = useState<{ path: string; cursor: string | null }>({ path: "", cursor: null });
  const page = useQuery(folderQuery(cluster, place.path, place.cursor));
  const { path } = place;
  const upper = path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
  const open = (folder: string) => setPlace({ path: folder, cursor: null });
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Button variant="default" disabled={path === ""} onClick={() => open(upper)}>
          {text("submit.files.up")}
        </Button>
        <UserText>{path === "" ? text("submit.files.areas") : path}</UserText>
      </Group>
      {page.isError ? <ProblemView error={page.error} retry={() => void page.refetch()} /> : null}
      <ul className={classes.picks} aria-busy={page.isPending}>
        {page.data?.folders.map((folder) => (
          <li key={folder}>
            <button type="button" onClick={() => open(path === "" ? folder : `${path}/${folder}`)}>
              <Group gap={8} wrap="nowrap">
                <Folder size={16} aria-label={text("submit.files.is_folder")} />
                <UserText>{folder}</UserText>
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
                <UserText>{file.path.slice(file.path.lastIndexOf("/") + 1)}</UserText>
              </Group>
              <span className="number">{bytes(file.size)}</span>
            </button>
          </li>
        ))}
      </ul>
      {page.data && page.data.folders.length + page.data.files.length === 0 ? (
        <Text c="dimmed">{text("submit.files.empty")}</Text>
      ) : null}
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
