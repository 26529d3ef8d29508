/** Deletes files and folders, after it has named what goes. */

import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { text } from "../../texts";
import { Confirm } from "../../ui/forms/Confirm";
import { UserText } from "../../ui/UserText";
import { count } from "../../ui/format";
import { ProblemView } from "../../ui/ProblemView";
import { filesIn, MOST_DELETED, remove } from "../actions";
import type { Entry } from "../queries";
import classes from "../Files.module.css";

interface Props {
  cluster: string;
  entries: readonly Entry[];
  close: () => void;
  after: () => Promise<void>;
}

const NAMED = 20;

export function RemoveFiles({ cluster, entries, close, after }: Props) {
  const [failed, setFailed] = useState<{ path: string; reason: string }[]>([]);
  const toDelete = useQuery({
    queryKey: ["toDelete", cluster, entries.map(({ path }) => path)],
    queryFn: ({ signal }) => filesIn(cluster, entries, signal),
    staleTime: 0,
    gcTime: 0,
  });
  const paths = toDelete.data?.paths ?? [];
  async function act() {
    if (toDelete.data === undefined) throw new Error(text("files.remove.counting"));
    const left = await remove(cluster, paths);
    setFailed(left);
    if (left.length > 0) throw new Error(text("files.remove.failed", { count: left.length }));
    await after();
  }
  return (
    <Confirm opened close={close} title={text("files.remove.title")} verb={text("files.act.delete_many", { count: paths.length })} act={act}>
      {toDelete.isError ? <ProblemView error={toDelete.error} retry={() => void toDelete.refetch()} /> : null}
      {toDelete.isPending ? <Text size="sm">{text("files.remove.counting")}</Text> : null}
      {toDelete.data ? (
        <>
          <Text size="sm">{text("files.remove.goes", { count: paths.length })}</Text>
          <ul className={classes.toDelete}>
            {paths.slice(0, NAMED).map((path) => (
              <li key={path}>
                <UserText>{path}</UserText>
              </li>
            ))}
          </ul>
          {paths.length > NAMED ? <Text size="sm">{text("files.remove.more", { number: count(paths.length - NAMED) })}</Text> : null}
          {toDelete.data.more ? <Text size="sm">{text("files.remove.bound", { number: count(MOST_DELETED) })}</Text> : null}
        </>
      ) : null}
      {failed.slice(0, NAMED).map(({ path, reason }) => (
        <Text size="sm" key={path}>
          <UserText>{text("files.remove.failed_file", { path, reason })}</UserText>
        </Text>
      ))}
    </Confirm>
  );
}
