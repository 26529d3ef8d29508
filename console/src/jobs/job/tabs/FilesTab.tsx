/** The files that are staged for a job: its input files, and its results. */

import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { profileQuery } from "../../../api/queries";
import type { JobWithCost, StagingPart } from "../../../api/schema";
import { text } from "../../../texts";
import { Empty } from "../../../ui/Empty";
import { bytes, count } from "../../../ui/format";
import { UserText } from "../../../ui/UserText";
import { Box } from "../Box";
import classes from "../job.module.css";
import { Results } from "./Results";

export function FilesTab({ cluster, job }: { cluster: string; job: JobWithCost }) {
  const me = useQuery(profileQuery).data;
  const staging = job.staging ?? null;
  if (staging === null) return <Empty title={text("job.files.none")}>{text("job.files.none_details")}</Empty>;
  return (
    <div>
      {staging.stage_in ? <Part title={text("job.files.in")} part={staging.stage_in} /> : null}
      {staging.stage_out ? (
        <Part title={text("job.files.out")} part={staging.stage_out}>
          <Results cluster={cluster} part={staging.stage_out} own={me?.uid === job.uid} />
        </Part>
      ) : null}
    </div>
  );
}

interface PartProps {
  title: string;
  part: StagingPart;
  children?: ReactNode;
}

function Part({ title, part, children }: PartProps) {
  return (
    <Box title={title}>
      <p>
        {text(`job.files.${part.state}`)} · {text("job.files.sum", { count: part.files, shown: count(part.files), size: bytes(part.bytes) })}
        {part.failed_files > 0 ? ` · ${text("job.files.failed_files", { count: part.failed_files, shown: count(part.failed_files) })}` : null}
      </p>
      {children}
      {part.errors.length > 0 ? (
        <ul className={classes.plain}>
          {part.errors.map((error, number) => (
            <li key={`${number} ${error}`}>
              <UserText>{error}</UserText>
            </li>
          ))}
        </ul>
      ) : null}
    </Box>
  );
}
