/** What an admin says of a version. */

import { Button, Group, Stack, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { text } from "../texts";
import { ProblemView } from "../ui/ProblemView";
import { review, versionsQuery } from "./queries";
import { Dialog } from "../ui/Dialog";

const LONGEST_NOTE = 1000;

interface Props {
  id: string;
  version: number;
  close: () => void;
}

export function ReviewDialog({ id, version, close }: Props) {
  const queries = useQueryClient();
  const [note, setNote] = useState("");
  const said = useMutation({
    mutationFn: (approve: boolean) => review(id, version, approve, note),
    onSuccess: (list) => {
      queries.setQueryData(versionsQuery(id).queryKey, list);
      close();
    },
  });
  return (
    <Dialog close={close} title={text("templates.review.title", { version })}>
      <Stack gap="sm">
        <Textarea
          label={text("templates.review.note")}
          value={note}
          onChange={(event) => setNote(event.currentTarget.value)}
          maxLength={LONGEST_NOTE}
          autosize
          minRows={3}
          data-autofocus
        />
        {said.isError ? <ProblemView error={said.error} /> : null}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={close}>
            {text("ui.keep")}
          </Button>
          <Button variant="default" disabled={said.isPending} onClick={() => said.mutate(false)}>
            {text("templates.review.reject")}
          </Button>
          <Button loading={said.isPending} onClick={() => said.mutate(true)}>
            {text("templates.review.approve")}
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
