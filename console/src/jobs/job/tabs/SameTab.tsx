/** The same as this page by the command line, curl and Python, to copy. */

import { Button, CopyButton } from "@mantine/core";
import type { Job } from "../../../api/schema";
import { text } from "../../../texts";
import classes from "../job.module.css";
import { snippets } from "./snippets";

export function SameTab({ cluster, job }: { cluster: string; job: Job }) {
  return (
    <div>
      {snippets({ origin: location.origin, cluster, job: job.job_id, name: job.name }).map(({ language, code }) => (
        <section key={language} className={classes.box}>
          <div className={classes.codeHead}>
            <h2>{text(`job.same.${language}`)}</h2>
            <CopyButton value={code}>
              {({ copied, copy }) => (
                <Button variant="default" onClick={copy} aria-label={text("job.same.copy", { language: text(`job.same.${language}`) })}>
                  {copied ? text("ui.copied") : text("ui.copy")}
                </Button>
              )}
            </CopyButton>
          </div>
          <pre className={classes.code} tabIndex={0} aria-label={text(`job.same.${language}`)}>
            {code}
          </pre>
        </section>
      ))}
    </div>
  );
}
