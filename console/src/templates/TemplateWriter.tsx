/** Writes a template, or another version of one, as YAML or JSON. What the service refuses is said at its line. */

import { Button, Group, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useRef } from "react";
import * as v from "valibot";
import { asProblem } from "../api/problem";
import { text } from "../texts";
import { CodeEditor } from "../ui/editor/CodeEditor";
import { useDraft } from "../ui/forms/drafts";
import { UserText } from "../ui/UserText";
import { ProblemView } from "../ui/ProblemView";
import { FIRST_DEFINITION, notesOf } from "./definition";
import { templatesQuery, versionsQuery, writeTemplate } from "./queries";
import classes from "./Templates.module.css";

interface Props {
  cluster: string;
  /** The person's id. */
  person: string;
  mayWrite: boolean;
  /** The template of which this is another version, with the definition to begin with; null for a new one. */
  template: { id: string; definition: string } | null;
}

export function TemplateWriter({ cluster, person, mayWrite, template }: Props) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const name = template === null ? "definition" : `definition.${template.id}`;
  const draft = useDraft({ person, cluster, name }, v.string(), () => template?.definition ?? FIRST_DEFINITION);
  const key = useRef({ definition: "", key: crypto.randomUUID() });
  const write = useMutation({
    mutationFn: (definition: string) => {
      if (key.current.definition !== definition) key.current = { definition, key: crypto.randomUUID() };
      return writeTemplate(template?.id ?? null, definition, key.current.key);
    },
    onSuccess: (versions) => {
      draft.forget();
      queries.setQueryData(versionsQuery(versions.id).queryKey, versions);
      void queries.invalidateQueries({ queryKey: templatesQuery.queryKey });
      void queries.invalidateQueries({ queryKey: ["template", versions.id], exact: true });
      void navigate({ to: "/c/$cluster/templates/$template", params: { cluster, template: versions.id }, search: { tab: "versions" } });
    },
  });
  const refused = write.isError && write.variables === draft.value;
  const notes = useMemo(() => (refused && write.error !== null ? notesOf(asProblem(write.error).detail) : []), [refused, write.error]);
  return (
    <Stack gap="sm">
      <Text size="sm" c="dimmed">
        {text("templates.write.help")}
      </Text>
      <div className={classes.code}>
        <CodeEditor language="yaml" label={text("templates.definition")} value={draft.value} notes={notes} onChange={(given) => draft.set(() => given)} />
      </div>
      {notes.length > 0 ? (
        <ul>
          {notes.map((note) => (
            <li key={`${note.line} ${note.message}`}>
              <UserText>{text("submit.finding_error", { line: note.line, message: note.message })}</UserText>
            </li>
          ))}
        </ul>
      ) : null}
      {write.isError && notes.length === 0 ? <ProblemView error={write.error} title={text("templates.write.failed")} /> : null}
      <Group gap="xs">
        <Button
          disabled={!mayWrite}
          loading={write.isPending}
          onClick={() => {
            if (!write.isPending) write.mutate(draft.value);
          }}
        >
          {text(template === null ? "templates.write.new" : "templates.write.version")}
        </Button>
        <Button variant="default" onClick={() => draft.set(() => template?.definition ?? FIRST_DEFINITION)}>
          {text("submit.start_over")}
        </Button>
        {mayWrite ? null : <Text size="sm">{text("templates.needs_author")}</Text>}
      </Group>
    </Stack>
  );
}
