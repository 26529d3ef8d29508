/** A template as a form: its values, the script that they make, and the submit. */

import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";
import * as v from "valibot";
import { launchablesQuery, templateQuery } from "../../api/launchables";
import { asProblem } from "../../api/problem";
import type { Launched, TemplateDetail, TemplateView } from "../../api/schema";
import { allParts } from "../../parameters/family";
import { ParametersForm } from "../../parameters/ParametersForm";
import { firstValues, keptOf, ofService, requestOf, type FormRequest, type Part } from "../../parameters/values";
import type { Writer } from "../ScriptSubmit";
import { SubmitBar } from "../SubmitBar";
import { useIdempotentSubmit } from "../useIdempotentSubmit";
import { text } from "../../texts";
import { useDraft } from "../../ui/forms/drafts";
import { UserText, visible } from "../../ui/UserText";
import { Page } from "../../ui/Page";
import { ProblemView } from "../../ui/ProblemView";
import { launch } from "../queries";
import { RenderedScripts } from "./RenderedScripts";
import classes from "./template.module.css";
import { useRendered } from "./useRendered";

interface Props {
  cluster: string;
  template: string;
  person: Writer;
}

export function TemplateLaunch({ cluster, template, person }: Props) {
  const detail = useQuery(templateQuery(template));
  const all = useQuery(launchablesQuery());
  const error = detail.error ?? all.error;
  const title = text("templates.launch.title", { name: visible(detail.data?.name ?? template) });
  return (
    <Page
      title={title}
      heading={<UserText>{title}</UserText>}
      actions={
        <>
          <Link to="/c/$cluster/templates/$template" params={{ cluster, template }} search={{}}>
            {text("templates.launch.about")}
          </Link>
          <Link to="/c/$cluster/submit" params={{ cluster }} search={{}}>
            {text("templates.launch.script")}
          </Link>
        </>
      }
    >
      {error ? (
        <ProblemView
          error={error}
          title={text("templates.unreadable")}
          retry={() => {
            void detail.refetch();
            void all.refetch();
          }}
        />
      ) : null}
      {detail.data && all.data ? (
        <LaunchForm cluster={cluster} template={detail.data} all={all.data.launchables} person={person} />
      ) : null}
    </Page>
  );
}

interface FormProps {
  cluster: string;
  template: TemplateDetail;
  all: readonly TemplateView[];
  person: Writer;
}

const Values = v.record(v.string(), v.string());

function LaunchForm({ cluster, template, all, person }: FormProps) {
  const parts = useMemo(() => allParts(template, template.definition, all), [template, all]);
  const navigate = useNavigate();
  const draft = useDraft({ person: person.id, cluster, name: `template.${template.id}` }, Values, () => ({}), (given) => keptOf(parts, given));
  const values = useMemo(() => ({ ...firstValues(parts), ...draft.value }), [parts, draft.value]);
  const { request, problems } = useMemo(() => requestOf(parts, values), [parts, values]);
  const [strict, setStrict] = useState(false);
  const form = useRef<HTMLDivElement>(null);
  function showMissing() {
    setStrict(true);
    // Once the fields say what is wrong with them.
    setTimeout(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
  }
  const ready = Object.keys(problems).length === 0;
  const wanted = useMemo(() => (ready && person.mayWrite ? request : null), [ready, person.mayWrite, request]);
  const rendering = useRendered({ cluster, id: template.id, version: null, request: wanted, estimate: true });
  const said = useServiceProblems(parts, wanted === null ? null : rendering.error);

  function done({ job_id, run_id }: Launched) {
    draft.forget();
    if (job_id !== null) void navigate({ to: "/c/$cluster/jobs/$job", params: { cluster, job: job_id } });
    else if (run_id !== null) void navigate({ to: "/c/$cluster/workflows/runs/$run", params: { cluster, run: run_id } });
  }

  const act = useIdempotentSubmit<FormRequest, Launched>({
    send: (given, confirmed, key) => launch({ id: template.id, cluster, request: given, confirmed, key }),
    done,
  });
  return (
    <>
      <Text mb="sm">
        <UserText>{template.description}</UserText>
      </Text>
      <div className={classes.sides} ref={form}>
        <ParametersForm
          parts={parts}
          values={values}
          problems={{ ...problems, ...said.ofParts }}
          strict={strict}
          onChange={(key, value) => draft.set((before) => ({ ...before, [key]: value }))}
        />
        <RenderedScripts rendering={rendering} missing={!ready} />
      </div>
      {said.other === null ? null : <ProblemView error={said.other} title={text("templates.launch.not_rendered")} />}
      {ready ? null : (
        <Button variant="default" mt="sm" style={{ alignSelf: "start" }} onClick={showMissing}>
          {text("templates.launch.what_is_missing")}
        </Button>
      )}
      {template.kind === "interactive" ? (
        <Text mt="sm">
          {text("templates.launch.session")}{" "}
          <Link to="/c/$cluster/sessions" params={{ cluster }} search={{ template: template.id }}>
            {text("templates.launch.open_session")}
          </Link>
        </Text>
      ) : template.ready ? (
        <SubmitBar
          cluster={cluster}
          estimated={wanted === null ? null : (rendering.ofSteps ?? rendering.estimated)}
          findings={[]}
          mayWrite={person.mayWrite}
          payer={{ user: person.user, account: null }}
          disabled={!ready || rendering.error !== null}
          act={act}
          submit={() => act.submit(request)}
          {...(template.kind === "workflow" ? { verb: text("templates.launch.start") } : {})}
        />
      ) : (
        <Text mt="sm">{text("templates.launch.not_ready")}</Text>
      )}
    </>
  );
}

/** What the service says of the values: at their fields, where it names one. */
function useServiceProblems(parts: readonly Part[], error: Error | null) {
  return useMemo(() => {
    const ofParts = error === null ? null : ofService(parts, asProblem(error).detail);
    return { ofParts: ofParts ?? {}, other: error !== null && ofParts === null ? error : null };
  }, [parts, error]);
}
