/** What can be done with the entries that are chosen. */

import { Button, Group, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { text } from "../texts";
import { count } from "../ui/format";
import { ProblemView } from "../ui/ProblemView";
import { useSingleFlight } from "../ui/forms/useSingleFlight";
import { download, MOST_DOWNLOADED, proposed } from "./actions";
import type { Dialog } from "./dialogs/Dialogs";
import type { Entry } from "./queries";
import { SHARED, type Root } from "./paths";

interface Props {
  cluster: string;
  root: Root;
  selected: readonly Entry[];
  writable: boolean;
  mayShare: boolean;
  open: (dialog: Dialog) => void;
  unselect: () => void;
}

export function SelectionActions({ cluster, root, selected, writable, mayShare, open, unselect }: Props) {
  const files = selected.filter(({ kind }) => kind === "file").map(({ path }) => path);
  const onlyFiles = files.length === selected.length;
  const saving = useMutation({ mutationFn: useSingleFlight(() => download(cluster, root, files)) });
  const tooMany = files.length > MOST_DOWNLOADED;
  return (
    <Group gap={6}>
      <Text size="xs" aria-live="polite">
        {text("files.selected", { count: selected.length })}
      </Text>
      {onlyFiles ? (
        <Button
          variant="default"
          disabled={tooMany}
          loading={saving.isPending}
          title={tooMany ? text("files.act.most_downloads", { count: MOST_DOWNLOADED }) : undefined}
          onClick={() => saving.mutate()}
        >
          {files.length === 1 ? text("files.act.download") : text("files.act.download_many", { number: count(files.length) })}
        </Button>
      ) : null}
      {onlyFiles && writable ? (
        <Button variant="default" onClick={() => open({ kind: "place", how: "rename", sources: files, destination: proposed(files) })}>
          {text("files.act.rename")}
        </Button>
      ) : null}
      {onlyFiles ? (
        <Button variant="default" onClick={() => open({ kind: "place", how: "copy", sources: files, destination: proposed(files) })}>
          {text("files.act.copy")}
        </Button>
      ) : null}
      {onlyFiles && mayShare ? (
        <Button variant="default" onClick={() => open({ kind: "place", how: "copy", sources: files, destination: `${SHARED}/` })}>
          {text("files.act.share")}
        </Button>
      ) : null}
      {writable ? (
        <Button variant="default" c="var(--state-failed)" onClick={() => open({ kind: "remove", entries: selected })}>
          {text("files.act.delete")}
        </Button>
      ) : null}
      <Button variant="subtle" onClick={unselect}>
        {text("files.act.unselect")}
      </Button>
      {saving.isError ? <ProblemView error={saving.error} /> : null}
    </Group>
  );
}
