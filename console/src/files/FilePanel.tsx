/** One file: a look at it, and what can be done with it. */

import { Button, Drawer, Group, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { text } from "../texts";
import { UserText } from "../ui/UserText";
import { bytes } from "../ui/format";
import { Moment } from "../ui/Moment";
import { ProblemView } from "../ui/ProblemView";
import { useSingleFlight } from "../ui/forms/useSingleFlight";
import { download } from "./actions";
import type { Dialog } from "./dialogs/Dialogs";
import type { Entry } from "./queries";
import { FilePreview } from "./preview/FilePreview";
import { nameOf, SHARED, type Root } from "./paths";

interface Props {
  cluster: string;
  root: Root;
  /** Of the file that is open; null for none. */
  path: string | null;
  /** What the list says of it; null where it is not in the list (yet). */
  entry: Entry | null;
  writable: boolean;
  mayShare: boolean;
  open: (dialog: Dialog) => void;
  close: () => void;
  /** Whether a dialog is above it, which Escape closes alone. */
  covered: boolean;
}

export function FilePanel({ path, close, covered, ...others }: Props) {
  return (
    <Drawer
      opened={path !== null}
      onClose={close}
      closeOnEscape={!covered}
      position="right"
      size="lg"
      closeButtonProps={{ "aria-label": text("ui.close") }}
      title={path === null ? text("files.preview.title") : <UserText>{nameOf(path)}</UserText>}
    >
      {path === null ? null : <Panel path={path} {...others} />}
    </Drawer>
  );
}

function Panel({ cluster, root, path, entry, writable, mayShare, open }: Omit<Props, "close" | "covered"> & { path: string }) {
  const saving = useMutation({ mutationFn: useSingleFlight(() => download(cluster, root, [path])) });
  const one: readonly string[] = [path];
  return (
    <Stack gap="sm">
      <Text size="xs" c="dimmed">
        <UserText>{path}</UserText>
      </Text>
      {entry === null ? null : (
        <Text size="xs">
          {text("files.preview.size", { size: bytes(entry.size ?? 0) })} <Moment at={entry.modifiedAt} />
        </Text>
      )}
      <Group gap={6}>
        <Button loading={saving.isPending} onClick={() => saving.mutate()}>
          {text("files.act.download")}
        </Button>
        {writable ? (
          <Button variant="default" onClick={() => open({ kind: "place", how: "rename", sources: one, destination: path })}>
            {text("files.act.rename")}
          </Button>
        ) : null}
        {root === "bucket" ? (
          <Button variant="default" onClick={() => open({ kind: "place", how: "copy", sources: one, destination: path })}>
            {text("files.act.copy")}
          </Button>
        ) : null}
        {root === "bucket" && mayShare ? (
          <Button
            variant="default"
            onClick={() => open({ kind: "place", how: "copy", sources: one, destination: `${SHARED}/${nameOf(path)}` })}
          >
            {text("files.act.share")}
          </Button>
        ) : null}
        {writable && entry !== null ? (
          <Button variant="default" c="var(--state-failed)" onClick={() => open({ kind: "remove", entries: [entry] })}>
            {text("files.act.delete")}
          </Button>
        ) : null}
      </Group>
      {saving.isError ? <ProblemView error={saving.error} /> : null}
      {entry === null ? null : <FilePreview cluster={cluster} root={root} path={path} size={entry.size ?? 0} version={entry.modifiedAt ?? ""} />}
    </Stack>
  );
}
