/** A job, written as a script or by the form of a template, and submitted. */

import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { profileQuery } from "../api/queries";
import { TemplateLaunch } from "../templates/TemplateLaunch";
import { text } from "../texts";
import { Page } from "../ui/Page";
import { ScriptSubmit } from "./ScriptSubmit";

const route = getRouteApi("/c/$cluster/submit");

export function SubmitPage() {
  const { cluster } = route.useParams();
  const { template, file } = route.useSearch();
  const profile = useQuery(profileQuery);
  if (profile.data === undefined) return <Page title={text("app.page.submit")}>{null}</Page>;
  const person = { id: profile.data.id, mayWrite: profile.data.role !== "viewer" };
  return template === undefined ? (
    <ScriptSubmit key={cluster} cluster={cluster} person={person} file={file ?? null} />
  ) : (
    <TemplateLaunch key={`${cluster} ${template}`} cluster={cluster} template={template} person={person} />
  );
}
