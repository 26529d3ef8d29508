/** The same as this page by the command line, curl and Python, to copy. */

import type { Job } from "../../../api/schema";
import { text } from "../../../texts";
import { CopyButton } from "../../../ui/CopyButton";
import classes from "../job.module.css";
import { snippets } from "./snippets";

export function SameTab({ cluster, job }: { cluster: string; job: Job }) {
  return (
    <div>
      {snippets({ origin: location.origin, cluster, job: job.job_id, name: job.name }).map(({ language, code }) => (
        <section key={language} className={classes.box}>
          <div className={classes.codeHead}>
            <h2>{text(`job.same.${language}`)}</h2>
            <CopyButton value={code} name={text("job.same.copy", { language: text(`job.same.${language}`) })} />
          </div>
          <pre className={classes.code} tabIndex={0} aria-label={text(`job.same.${language}`)}>
            {code}
          </pre>
        </section>
      ))}
    </div>
  );
}
