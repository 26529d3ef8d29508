/** The definition of a template: a version as it was written, or what the service has read of the one in use. */

import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { TemplateDetail } from "../api/schema";
import { text } from "../texts";
import { CodeEditor } from "../ui/editor/CodeEditor";
import { ProblemView } from "../ui/ProblemView";
import { versionQuery } from "./queries";
import classes from "./Templates.module.css";

interface Props {
  template: TemplateDetail;
  version: number | null;
}

export function Definition({ template, version }: Props) {
  const wanted = template.origin === "workspace" ? (version ?? template.version) : null;
  const written = useQuery({ ...versionQuery(template.id, wanted ?? 0), enabled: wanted !== null });
  const value = wanted === null ? JSON.stringify(template.definition, null, 2) : written.data?.definition;
  return (
    <>
      {wanted === null ? null : <Text size="sm">{text("templates.version_shown", { version: wanted })}</Text>}
      {written.isError && wanted !== null ? <ProblemView error={written.error} retry={() => void written.refetch()} /> : null}
      <div className={classes.code}>
        {value === undefined ? null : <CodeEditor key={wanted} language="yaml" label={text("templates.definition")} value={value} readOnly />}
      </div>
    </>
  );
}
