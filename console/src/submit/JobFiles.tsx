/** The files that are copied from the bucket before the job starts, and the results that are copied there afterwards. */

import { ActionIcon, Button, Fieldset, Group, Stack, Text, TextInput } from "@mantine/core";
import { X } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { text } from "../texts";
import { announce } from "../ui/announcements";
import { UserText, visible } from "../ui/UserText";
import { MOST_FILES, newFolder, withFile, type Draft } from "./draft";
import { FilePicker } from "./FilePicker";
import classes from "./SubmitPage.module.css";

export interface FieldProblem {
  pointer: string;
  detail: string;
}

interface Props {
  cluster: string;
  draft: Draft;
  problems: readonly FieldProblem[];
  onDraft: (change: (before: Draft) => Draft) => void;
}

type Kind = "files" | "results";
const POINTERS: Record<Kind, string> = { files: "stage_in", results: "stage_out" };

export function JobFiles({ cluster, draft, problems, onDraft }: Props) {
  const [picking, setPicking] = useState(false);
  const said = (pointer: string) => problems.find((each) => each.pointer.startsWith(pointer))?.detail;
  // The row that was just added is shown and has the focus: it may be out of sight.
  const added = useRef<string | null>(null);
  const focusAdded = (kind: Kind, row: number) => (field: HTMLInputElement | null) => {
    if (field === null || added.current !== `${kind} ${row}`) return;
    added.current = null;
    field.focus({ preventScroll: true });
    // In the middle: the bar of the submit covers what is at the lower edge.
    field.scrollIntoView({ block: "center" });
  };
  const staged = draft.files.length > 0 || draft.results.length > 0;

  function changed(kind: Kind, index: number, part: Partial<Draft[Kind][number]>) {
    onDraft((before) => ({ ...before, [kind]: before[kind].map((each, at) => (at === index ? { ...each, ...part } : each)) }));
  }

  return (
    <Fieldset legend={text("submit.files.title")} variant="unstyled">
      <Stack gap={8}>
        {staged ? (
          <TextInput
            label={text("submit.files.folder")}
            description={text("submit.files.folder_help")}
            value={draft.folder}
            onChange={(event) => {
              const folder = event.currentTarget.value;
              onDraft((before) => ({ ...before, folder }));
            }}
            error={said("#/job/current_working_directory")}
          />
        ) : (
          <Text size="sm" c="dimmed">
            {text("submit.files.none")}
          </Text>
        )}
        {draft.files.map((file, index) => (
          <div key={file.source} className={classes.file}>
            <div>
              <Text size="xs" c="dimmed">
                {text("submit.files.source")}
              </Text>
              <UserText cut>{file.source}</UserText>
            </div>
            <TextInput
              ref={focusAdded("files", index)}
              label={text("submit.files.destination")}
              value={file.destination}
              onChange={(event) => changed("files", index, { destination: event.currentTarget.value })}
              error={said(`#/${POINTERS.files}/${index}/`)}
            />
            <Remove
              name={file.source}
              act={() => onDraft((before) => ({ ...before, files: before.files.filter((_, at) => at !== index) }))}
            />
          </div>
        ))}
        {draft.results.map((result, index) => (
          // The rows have no names of their own.
          // oxlint-disable-next-line no-array-index-key
          <div key={index} className={classes.file}>
            <TextInput
              ref={focusAdded("results", index)}
              label={text("submit.files.pattern")}
              value={result.source}
              onChange={(event) => changed("results", index, { source: event.currentTarget.value })}
              error={said(`#/${POINTERS.results}/${index}/source`)}
            />
            <TextInput
              label={text("submit.files.target")}
              value={result.destination}
              onChange={(event) => changed("results", index, { destination: event.currentTarget.value })}
              error={said(`#/${POINTERS.results}/${index}/destination`)}
            />
            <Remove
              name={result.source}
              act={() => onDraft((before) => ({ ...before, results: before.results.filter((_, at) => at !== index) }))}
            />
          </div>
        ))}
        <ResultsHelp results={draft.results.length} />
        <Group gap="xs">
          <Button variant="default" disabled={draft.files.length >= MOST_FILES} onClick={() => setPicking(true)}>
            {text("submit.files.add")}
          </Button>
          <Button
            variant="default"
            disabled={draft.results.length >= 32}
            onClick={() => {
              added.current = `results ${draft.results.length}`;
              onDraft((before) => {
                const folder = before.folder || newFolder();
                return { ...before, folder, results: [...before.results, { source: "results/**", destination: `outputs/${folder}/` }] };
              });
            }}
          >
            {text("submit.files.add_results")}
          </Button>
        </Group>
        {picking ? (
          <FilePicker
            cluster={cluster}
            close={() => setPicking(false)}
            pick={(path) => {
              // One that is there already is not added again.
              added.current = `files ${withFile(draft, path).files.findIndex(({ source }) => source === path)}`;
              announce(text("submit.files.added", { path: visible(path) }));
              onDraft((before) => withFile(before, path));
            }}
          />
        ) : null}
      </Stack>
    </Fieldset>
  );
}

function Remove({ name, act }: { name: string; act: () => void }) {
  return (
    <ActionIcon size={28} aria-label={text("submit.files.remove", { name: visible(name) })} onClick={act}>
      <X size={16} aria-hidden />
    </ActionIcon>
  );
}

/** What of the results is kept. It stands below them, and comes into view with one that is added. */
function ResultsHelp({ results }: { results: number }) {
  const place = useRef<HTMLParagraphElement>(null);
  const before = useRef(results);
  useEffect(() => {
    if (results > before.current) place.current?.scrollIntoView({ block: "nearest" });
    before.current = results;
  }, [results]);
  if (results === 0) return null;
  return (
    <Text ref={place} size="sm" c="dimmed">
      {text("submit.files.results_help")}
    </Text>
  );
}
