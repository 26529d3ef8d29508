/** The script that a link shows: plain text. */

import { useQuery } from "@tanstack/react-query";
import { text } from "../texts";
import { ProblemView } from "../ui/ProblemView";
import { visible } from "../ui/UserText";
import { sharedScriptQuery } from "./sharedJob";
import classes from "./shared_links.module.css";

export function SharedScript({ token }: { token: string }) {
  const script = useQuery(sharedScriptQuery(token));
  return (
    <section className={classes.script} aria-labelledby="shared-script">
      <h2 id="shared-script">{text("shared_links.page.script")}</h2>
      {script.isError ? <ProblemView error={script.error} title={text("job.script.missing")} retry={() => void script.refetch()} /> : null}
      {script.isPending ? <div className={classes.skeleton} role="status" aria-label={text("ui.loading")} /> : null}
      {script.data ? (
        <pre className={classes.code} tabIndex={0} aria-labelledby="shared-script">
          {visible(script.data.script)}
        </pre>
      ) : null}
    </section>
  );
}
