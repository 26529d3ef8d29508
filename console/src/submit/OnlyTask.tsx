/** Says that a draft runs one task of an array, and not the whole of it. */

import { Text } from "@mantine/core";
import { text } from "../texts";
import { onlyTask, type Draft } from "./draft";

export function OnlyTask({ draft }: { draft: Draft }) {
  const only = onlyTask(draft);
  if (only === null) return null;
  return (
    <Text size="sm" mb={6}>
      {text("submit.only_task", { task: only.task, job: only.job })}
    </Text>
  );
}
