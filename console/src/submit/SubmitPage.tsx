/** A job, written as a script or by the form of a template, and submitted. */

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback } from "react";
import { profileQuery } from "../api/queries";
import { TemplateLaunch } from "./template/TemplateLaunch";
import { text } from "../texts";
import { Page } from "../ui/Page";
import { ScriptSubmit } from "./ScriptSubmit";

const route = getRouteApi("/c/$cluster/submit");

export function SubmitPage() {
  const { cluster } = route.useParams();
  const { template, file, rerun } = route.useSearch();
  const navigate = route.useNavigate();
  // The draft has it from then on: a file that is taken out again stays out.
  const fileTaken = useCallback(() => void navigate({ search: ({ file: _taken, ...search }) => search, replace: true }), [navigate]);
  // A later reload keeps what was changed in it.
  const rerunTaken = useCallback(() => void navigate({ search: ({ rerun: _taken, ...search }) => search, replace: true }), [navigate]);
  const profile = useQuery(profileQuery);
  if (profile.data === undefined) return <Page title={text("app.page.submit")}>{null}</Page>;
  const person = { id: profile.data.id, user: profile.data.name, mayWrite: profile.data.role !== "viewer" };
  return template === undefined ? (
    <ScriptSubmit key={cluster} cluster={cluster} person={person} file={file ?? null} fileTaken={fileTaken} rerun={rerun ?? null} rerunTaken={rerunTaken} />
  ) : (
    <TemplateLaunch key={`${cluster} ${template}`} cluster={cluster} template={template} person={person} />
  );
}
