/** Where files are dropped, and the buttons that do the same. */

import { Button, FileButton } from "@mantine/core";
import { FolderPlus, FolderUp, Upload } from "lucide-react";
import { useState, type ChangeEvent, type DragEvent, type ReactNode, useRef } from "react";
import { text } from "../../texts";
import { UserText } from "../../ui/UserText";
import classes from "../Files.module.css";

interface AreaProps {
  enabled: boolean;
  drop: (data: DataTransfer) => void;
  folder: string;
  children: ReactNode;
}

export function UploadArea({ enabled, drop, folder, children }: AreaProps) {
  const [over, setOver] = useState(false);
  const isUpload = (event: DragEvent) => enabled && event.dataTransfer.types.includes("Files");
  return (
    <div
      className={classes.drop}
      data-over={over}
      onDragOver={(event) => {
        if (!isUpload(event)) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        if (!isUpload(event)) return;
        event.preventDefault();
        setOver(false);
        drop(event.dataTransfer);
      }}
    >
      {children}
      {over ? (
        <div className={classes.over}>
          <UserText>{text("files.upload.drop", { folder })}</UserText>
        </div>
      ) : null}
    </div>
  );
}

interface ButtonsProps {
  upload: (files: Iterable<File>) => void;
  newFolder: () => void;
}

export function UploadButtons({ upload, newFolder }: ButtonsProps) {
  const folders = useRef<HTMLInputElement>(null);
  const reset = useRef<() => void>(null);
  return (
    <>
      <FileButton
        multiple
        resetRef={reset}
        onChange={(files) => {
          upload(files);
          // The same file can be chosen again.
          reset.current?.();
        }}
      >
        {(props) => (
          <Button {...props} leftSection={<Upload size={14} aria-hidden />}>
            {text("files.act.upload_files")}
          </Button>
        )}
      </FileButton>
      <input
        ref={folders}
        type="file"
        multiple
        hidden
        aria-hidden
        tabIndex={-1}
        // React knows no such attribute.
        {...{ webkitdirectory: "" }}
        onChange={({ currentTarget }: ChangeEvent<HTMLInputElement>) => {
          upload([...(currentTarget.files ?? [])]);
          currentTarget.value = "";
        }}
      />
      <Button variant="default" leftSection={<FolderUp size={14} aria-hidden />} onClick={() => folders.current?.click()}>
        {text("files.act.upload_folder")}
      </Button>
      <Button variant="default" leftSection={<FolderPlus size={14} aria-hidden />} onClick={newFolder}>
        {text("files.act.new_folder")}
      </Button>
    </>
  );
}
