/** The script that the job was submitted with: plain text, read when the tab is opened. */

import { useQuery } from "@tanstack/react-query";
import { text } from "../../../texts";
import { visible } from "../../../ui/UserText";
import { ProblemView } from "../../../ui/ProblemView";
import { scriptQuery } from "../../queries";
import classes from "../job.module.css";

export function ScriptTab({ cluster, job }: { cluster: string; job: string }) {
  const script = useQuery(scriptQuery(cluster, job));
  if (script.isError) return <ProblemView error={script.error} title={text("job.script.missing")} retry={() => void script.refetch()} />;
  if (script.isPending) return <div className={classes.skeleton} aria-label={text("ui.loading")} role="status" />;
  return (
    <section>
      <pre className={classes.code} tabIndex={0} aria-label={text("job.tab.script")}>
        {visible(script.data.script)}
      </pre>
      <p>{text("job.script.beside")}</p>
    </section>
  );
}
