/** Uploads to this folder that broke off: choosing the same file goes on with them. */

import { Button, Group, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { text } from "../../texts";
import { UserText, visible } from "../../ui/UserText";
import { Moment } from "../../ui/Moment";
import { ProblemView } from "../../ui/ProblemView";
import { unfinishedQuery } from "../queries";
import classes from "../Files.module.css";
import { nameOf, parentOf } from "../paths";
import { useUploads } from "./queue";
import { forget } from "./transfer";

export function UnfinishedUploads({ cluster, path }: { cluster: string; path: string }) {
  const { running } = useUploads();
  const unfinished = useQuery(unfinishedQuery(cluster, path));
  const queries = useQueryClient();
  const forgetting = useMutation({
    mutationFn: (upload: { path: string; upload_id: string }) => forget(cluster, upload.path, upload.upload_id),
    onSettled: () => queries.invalidateQueries(unfinishedQuery(cluster, path)),
  });
  const here = (unfinished.data?.uploads ?? []).filter(
    (upload) => parentOf(upload.path) === path && !running.some((transfer) => transfer.path === upload.path),
  );
  if (here.length === 0) return null;
  return (
    <section className={classes.panel} aria-label={text("files.upload.unfinished")}>
      <Text size="sm" fw={600}>
        {text("files.upload.unfinished")}
      </Text>
      <Text size="xs" c="dimmed">
        {text("files.upload.unfinished_help")}
      </Text>
      {here.map((upload) => (
        <Group key={upload.upload_id} gap="xs" mih={30} wrap="nowrap">
          <UserText cut>{nameOf(upload.path)}</UserText>
          <Text size="xs" c="dimmed">
            {text("files.upload.begun")} <Moment at={upload.begun_at} />
          </Text>
          <Button
            variant="default"
            loading={forgetting.isPending && forgetting.variables.upload_id === upload.upload_id}
            aria-label={text("files.upload.forget_of", { name: visible(nameOf(upload.path)) })}
            onClick={() => forgetting.mutate(upload)}
          >
            {text("files.upload.forget")}
          </Button>
        </Group>
      ))}
      {forgetting.isError ? <ProblemView error={forgetting.error} /> : null}
    </section>
  );
}
