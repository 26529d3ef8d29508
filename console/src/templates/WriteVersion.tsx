/** Another version of a template, which begins with its newest one. */

import { useQuery } from "@tanstack/react-query";
import type { VersionView } from "../api/schema";
import { ProblemView } from "../ui/ProblemView";
import { versionQuery } from "./queries";
import { TemplateWriter } from "./TemplateWriter";

interface Props {
  cluster: string;
  person: string;
  mayWrite: boolean;
  id: string;
  versions: readonly VersionView[];
}

export function WriteVersion({ cluster, person, mayWrite, id, versions }: Props) {
  const newest = versions.at(-1)?.version ?? 1;
  const written = useQuery(versionQuery(id, newest));
  if (written.isError) return <ProblemView error={written.error} retry={() => void written.refetch()} />;
  if (written.data === undefined) return null;
  return (
    <TemplateWriter cluster={cluster} person={person} mayWrite={mayWrite} template={{ id, definition: written.data.definition }} />
  );
}
