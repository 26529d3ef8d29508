/** A problem: what happened, what to do, and the request id to copy. */

import { Alert, Button, Code, Group, Stack, Text } from "@mantine/core";
import { asProblem, NO_ANSWER, type Problem } from "../api/problem";
import { text } from "../texts";
import { CopyButton } from "./CopyButton";
import { UserText } from "./UserText";

interface Props {
  error: unknown;
  /** What could not be done, such as "The jobs cannot be shown". */
  title?: string;
  retry?: () => void;
}

export function ProblemView({ error, title, retry }: Props) {
  const problem = asProblem(error);
  return (
    <Alert color="red" variant="light" title={title ?? headline(problem)} role="alert">
      <Stack gap={6}>
        <Text size="sm">
          <UserText>{details(problem)}</UserText>
        </Text>
        {problem.errors?.map((each) => (
          <Text size="sm" key={`${each.pointer} ${each.detail}`}>
            <UserText>{`${each.pointer} ${each.detail}`.trim()}</UserText>
          </Text>
        ))}
        {problem.hint ? (
          <Text size="sm">
            <UserText>{problem.hint}</UserText>
          </Text>
        ) : null}
        <Group gap="xs">
          {retry ? <Button onClick={retry}>{text("ui.retry")}</Button> : null}
          {problem.request_id ? <RequestId id={problem.request_id} /> : null}
        </Group>
      </Stack>
    </Alert>
  );
}

function headline(problem: Problem): string {
  if (problem.status === NO_ANSWER) return text("ui.no_answer");
  if (problem.status < 0) return text("ui.fault");
  return problem.title;
}

function details(problem: Problem): string {
  if (problem.status === NO_ANSWER) return text("ui.no_answer_details");
  return problem.detail;
}

function RequestId({ id }: { id: string }) {
  return (
    <CopyButton value={id} label={text("ui.request_id")}>
      <Code ml={6}>{id.slice(0, 12)}</Code>
    </CopyButton>
  );
}
