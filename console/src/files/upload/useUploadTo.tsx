/** Uploads to a folder: what was chosen or dropped is queued, after a question where it would replace something. */

import { Text } from "@mantine/core";
import { useState, type ReactNode } from "react";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { UserText } from "../../ui/UserText";
import { count } from "../../ui/format";
import type { Entry } from "../queries";
import classes from "../Files.module.css";
import { chosenFiles, droppedFiles, MOST_FILES, writtenNames, type Chosen, type NamedFile } from "./dropped";
import { uploads } from "./queue";

interface UploadTo {
  choose: (files: Iterable<File>) => void;
  drop: (data: DataTransfer) => void;
  /** Asks before files are replaced; null where nothing is to ask. */
  question: ReactNode;
}

const NAMED = 20;

export function useUploadTo(cluster: string, folder: string, entries: readonly Entry[]): UploadTo {
  const [asked, setAsked] = useState<{ files: NamedFile[]; names: string[] } | null>(null);
  const [cut, setCut] = useState(false);
  function take({ files, more }: Chosen) {
    setCut(more);
    const written = writtenNames(files, folder);
    const names = entries.filter(({ name }) => written.has(name.normalize("NFC"))).map(({ name }) => name);
    if (names.length > 0) setAsked({ files, names });
    else uploads.add(cluster, files);
  }
  const question = (
    <>
      {cut ? <Text size="sm">{text("files.upload.more", { number: count(MOST_FILES) })}</Text> : null}
      {asked === null ? null : (
        <Confirm
          opened
          close={() => setAsked(null)}
          title={text("files.upload.replaces_title")}
          verb={text("files.upload.replace")}
          act={async () => uploads.add(cluster, asked.files)}
        >
          <Text size="sm">{text("files.upload.replaces")}</Text>
          <ul className={classes.toDelete}>
            {asked.names.slice(0, NAMED).map((name) => (
              <li key={name}>
                <UserText>{name}</UserText>
              </li>
            ))}
          </ul>
          {asked.names.length > NAMED ? <Text size="sm">{text("files.remove.more", { number: count(asked.names.length - NAMED) })}</Text> : null}
        </Confirm>
      )}
    </>
  );
  return {
    choose: (files) => take(chosenFiles(files, folder)),
    drop: (data) => void droppedFiles(data, folder).then(take),
    question,
  };
}
