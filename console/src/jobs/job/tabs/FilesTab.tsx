/** The files that are staged for a job: brought before it, and taken away after it. */

import type { JobStaging, StagingPart } from "../../../api/schema";
import { text } from "../../../texts";
import { Empty } from "../../../ui/Empty";
import { bytes, count } from "../../../ui/format";
import { Foreign } from "../../../ui/Foreign";
import classes from "../job.module.css";

export function FilesTab({ staging }: { staging: JobStaging | null }) {
  if (staging === null) return <Empty title={text("job.files.none")}>{text("job.files.none_details")}</Empty>;
  return (
    <div>
      {staging.stage_in ? <Part title={text("job.files.in")} part={staging.stage_in} /> : null}
      {staging.stage_out ? <Part title={text("job.files.out")} part={staging.stage_out} /> : null}
    </div>
  );
}

function Part({ title, part }: { title: string; part: StagingPart }) {
  return (
    <section className={classes.box}>
      <h2>{title}</h2>
      <p>
        {text(`job.files.${part.state}`)} · {text("job.files.sum", { count: part.files, shown: count(part.files), size: bytes(part.bytes) })}
        {part.failed_files > 0 ? ` · ${text("job.files.failed_files", { count: part.failed_files, shown: count(part.failed_files) })}` : null}
      </p>
      {part.errors.length > 0 ? (
        <ul className={classes.plain}>
          {part.errors.map((error, number) => (
            <li key={`${number} ${error}`}>
              <Foreign>{error}</Foreign>
            </li>
          ))}
        </ul>
      ) : null}
    </section>
  );
}
