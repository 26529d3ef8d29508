/** A template rendered with values: nothing is submitted. A version that is not in use takes its values as JSON. */

import { Text, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import * as v from "valibot";
import { launchablesQuery } from "../api/launchables";
import { asProblem } from "../api/problem";
import type { TemplateDetail } from "../api/schema";
import { allParts } from "../parameters/family";
import { ParametersForm } from "../parameters/ParametersForm";
import { useParameters } from "../parameters/useParameters";
import { ofService, type FormRequest } from "../parameters/values";
import { text } from "../texts";
import { ProblemView } from "../ui/ProblemView";
import { RenderedScripts } from "../submit/template/RenderedScripts";
import classes from "../submit/template/template.module.css";
import { useRendered } from "../submit/template/useRendered";

interface Props {
  cluster: string;
  template: TemplateDetail;
  version: number | null;
  mayRender: boolean;
}

export function TryTemplate({ cluster, template, version, mayRender }: Props) {
  if (!mayRender) return <Text>{text("templates.needs_member_render")}</Text>;
  const other = version !== null && version !== template.version;
  return other ? (
    <TryVersion cluster={cluster} template={template} version={version} />
  ) : (
    <TryForm cluster={cluster} template={template} />
  );
}

function TryForm({ cluster, template }: Pick<Props, "cluster" | "template">) {
  const all = useQuery(launchablesQuery());
  const parts = useMemo(() => allParts(template, template.definition, all.data?.launchables ?? []), [template, all.data]);
  const { values, request, problems, change } = useParameters(parts);
  const ready = Object.keys(problems).length === 0;
  const wanted = useMemo(() => (ready ? request : null), [ready, request]);
  const rendering = useRendered({ cluster, id: template.id, version: template.version, request: wanted, estimate: false });
  const said = wanted === null || rendering.error === null ? null : ofService(parts, asProblem(rendering.error).detail);
  return (
    <>
      {wanted !== null && rendering.error !== null && said === null ? (
        <ProblemView error={rendering.error} title={text("templates.launch.not_rendered")} />
      ) : null}
      <div className={classes.sides}>
        <ParametersForm
          parts={parts}
          values={values}
          problems={{ ...problems, ...said }}
          strict={false}
          onChange={change}
        />
        <RenderedScripts rendering={rendering} missing={!ready} />
      </div>
    </>
  );
}

const RequestShape = v.object({
  params: v.optional(v.record(v.string(), v.unknown()), {}),
  inputs: v.optional(v.record(v.string(), v.unknown()), {}),
});

function TryVersion({ cluster, template, version }: { cluster: string; template: TemplateDetail; version: number }) {
  const [written, setWritten] = useState('{\n  "params": {},\n  "inputs": {}\n}');
  const wanted = useMemo(() => read(written), [written]);
  const rendering = useRendered({ cluster, id: template.id, version, request: wanted, estimate: false });
  return (
    <div className={classes.sides}>
      <Textarea
        label={text("templates.try.values", { version })}
        description={text("templates.try.help")}
        value={written}
        onChange={(event) => setWritten(event.currentTarget.value)}
        error={wanted === null ? text("templates.try.not_json") : undefined}
        autosize
        minRows={8}
        maxRows={24}
        spellCheck={false}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      />
      <div>
        {rendering.error !== null && wanted !== null ? (
          <ProblemView error={rendering.error} title={text("templates.launch.not_rendered")} />
        ) : null}
        <RenderedScripts rendering={rendering} missing={wanted === null} />
      </div>
    </div>
  );
}

function read(written: string): FormRequest | null {
  try {
    const found = v.safeParse(RequestShape, JSON.parse(written));
    return found.success ? found.output : null;
  } catch {
    return null;
  }
}
