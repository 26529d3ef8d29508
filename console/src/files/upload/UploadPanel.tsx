/** The uploads of this tab: how far they are, and what failed. */

import { ActionIcon, Button, Group, Progress, Stack, Text } from "@mantine/core";
import { X } from "lucide-react";
import { text } from "../../texts";
import { useAnnounced } from "../../ui/announcements";
import { UserText, visible } from "../../ui/UserText";
import { bytes, count } from "../../ui/format";
import { ProblemView } from "../../ui/ProblemView";
import classes from "../Files.module.css";
import { nameOf } from "../paths";
import { uploads, useUploads, type Transfer } from "./queue";

/** The most failures that are shown, each with its reason. */
const SHOWN = 10;

export function UploadPanel() {
  const all = useUploads();
  const busy = all.running.length + all.waiting > 0;
  const progress = text("files.upload.progress", {
    done: count(all.done),
    total: count(all.total),
    sent: bytes(all.sentBytes),
    size: bytes(all.totalBytes),
  });
  useAnnounced(progress, busy);
  if (all.total === 0) return null;
  const failed = all.failed.map(({ id }) => id);
  return (
    <section className={classes.panel} aria-label={text("files.upload.title")}>
      <Group justify="space-between" gap="xs">
        <Text size="sm" fw={600}>
          {progress}
        </Text>
        <Group gap={6}>
          {failed.length > 1 ? (
            <Button variant="default" onClick={() => uploads.retry(failed)}>
              {text("files.upload.retry_all")}
            </Button>
          ) : null}
          <Button variant="default" onClick={() => uploads.cancelAll()}>
            {text(busy ? "files.upload.cancel_all" : "files.upload.dismiss")}
          </Button>
        </Group>
      </Group>
      <Progress
        my={6}
        value={all.totalBytes === 0 ? 100 : (100 * all.sentBytes) / all.totalBytes}
        aria-label={text("files.upload.title")}
      />
      {all.running.map((transfer) => (
        <Running key={transfer.id} transfer={transfer} />
      ))}
      {all.waiting > 0 ? (
        <Text size="xs" c="dimmed">
          {text("files.upload.waiting", { count: all.waiting })}
        </Text>
      ) : null}
      <Stack gap={6} mt={failed.length > 0 ? 6 : 0}>
        {all.failed.slice(0, SHOWN).map(({ id, path, error }) => (
          <ProblemView
            key={id}
            title={text("files.upload.failed_file", { path: visible(path) })}
            error={error}
            retry={() => uploads.retry([id])}
          />
        ))}
        {failed.length > SHOWN ? <Text size="sm">{text("files.upload.failed_more", { count: failed.length - SHOWN })}</Text> : null}
      </Stack>
    </section>
  );
}

function Running({ transfer }: { transfer: Transfer }) {
  const { id, path, file, sent } = transfer;
  const name = visible(nameOf(path));
  return (
    <div className={classes.transfer}>
      <UserText cut>{path}</UserText>
      <Progress
        value={file.size === 0 ? 100 : (100 * sent) / file.size}
        aria-label={text("files.upload.of_file", { name, sent: bytes(sent), size: bytes(file.size) })}
      />
      <ActionIcon aria-label={text("files.upload.cancel_of", { name })} title={text("files.upload.cancel")} onClick={() => uploads.cancel(id)}>
        <X size={14} aria-hidden />
      </ActionIcon>
    </div>
  );
}
