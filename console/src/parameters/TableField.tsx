/** A table, pasted or picked from this computer, with what would be read of it. */

import { Button, FileButton, Group, Stack, Text, Textarea } from "@mantine/core";
import { useMemo, useState } from "react";
import { text } from "../texts";
import { UserText, visible } from "../ui/UserText";
import { count } from "../ui/format";
import { hint } from "./PartField";
import classes from "./TableField.module.css";
import { MOST_ROWS, readTable } from "./table";
import type { Part } from "./values";

interface Props {
  part: Part;
  value: string;
  problem: string | undefined;
  onChange: (value: string) => void;
}

const LARGEST = 128 * 1024;

export function TableField({ part, value, problem, onChange }: Props) {
  const [tooLarge, setTooLarge] = useState(false);
  const table = useMemo(() => readTable(value, part.format, part.columns), [value, part.format, part.columns]);
  async function read(file: File | null) {
    if (file === null) return;
    setTooLarge(file.size > LARGEST);
    if (file.size <= LARGEST) onChange(await file.text());
  }
  return (
    <Stack gap={6}>
      <Textarea
        label={visible(part.label)}
        description={visible(hint(part))}
        error={tooLarge ? text("parameters.table.too_large") : problem}
        withAsterisk={part.required}
        aria-required={part.required}
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
        autosize
        minRows={3}
        maxRows={12}
        maxLength={LARGEST}
        spellCheck={false}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", whiteSpace: "pre" } }}
      />
      <Group gap="xs">
        <FileButton onChange={(file) => void read(file)} accept=".csv,.tsv,.txt,text/csv,text/tab-separated-values">
          {(props) => (
            <Button variant="default" {...props}>
              {text("parameters.table.pick")}
            </Button>
          )}
        </FileButton>
        {value.includes("\n") ? (
          <Text size="sm">
            {table.count > MOST_ROWS
              ? text("parameters.table.too_many", { most: count(MOST_ROWS) })
              : text("parameters.table.rows", { count: table.count, shown: count(table.count) })}
          </Text>
        ) : null}
      </Group>
      {table.missing.length > 0 && value !== "" ? (
        <Text size="sm" c="var(--state-failed)">
          <UserText>{text("parameters.table.missing", { columns: table.missing.join(", ") })}</UserText>
        </Text>
      ) : null}
      {table.rows.length > 0 ? <Preview columns={table.columns} rows={table.rows} label={part.label} /> : null}
    </Stack>
  );
}

function Preview({ columns, rows, label }: { columns: readonly string[]; rows: readonly (readonly string[])[]; label: string }) {
  return (
    <section className={classes.preview} aria-label={text("parameters.table.preview", { label: visible(label) })} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column, index) => (
              // Two columns may have one name here; the service refuses them.
              // oxlint-disable-next-line no-array-index-key
              <th key={index} scope="col">
                <UserText>{column}</UserText>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, row) => (
            // oxlint-disable-next-line no-array-index-key
            <tr key={row}>
              {columns.map((_, index) => (
                // oxlint-disable-next-line no-array-index-key
                <td key={index}>
                  <UserText>{(cells[index] ?? "").slice(0, 200)}</UserText>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
