/** The results of a job: the first files that were copied, and the folders of the bucket that they went to. */

import { Link } from "@tanstack/react-router";
import { useId } from "react";
import type { StageOutPart } from "../../../api/schema";
import { parentOf } from "../../../files/paths";
import { text } from "../../../texts";
import { bytes, count } from "../../../ui/format";
import { UserText } from "../../../ui/UserText";
import classes from "../job.module.css";

const SHOWN = 20;

interface Props {
  cluster: string;
  part: StageOutPart;
  /** Whether the person owns the job: only their own files are at these paths in Files. */
  own: boolean;
}

export function Results({ cluster, part, own }: Props) {
  const { rules = [], copied = [] } = part;
  const files = copied.slice(0, SHOWN);
  const more = part.files - files.length;
  const folders = useId();
  return (
    <>
      {files.length > 0 ? (
        <ul className={classes.plain} aria-label={text("job.files.names")}>
          {files.map(({ path, size }) => (
            <li key={path}>
              {own ? (
                <Link to="/c/$cluster/files" params={{ cluster }} search={{ path: parentOf(path), file: path }}>
                  <UserText>{path}</UserText>
                </Link>
              ) : (
                <UserText>{path}</UserText>
              )}{" "}
              <span className={classes.quiet}>{bytes(size)}</span>
            </li>
          ))}
        </ul>
      ) : null}
      {files.length > 0 && more > 0 ? <p>{text("job.files.more", { count: more, shown: count(more) })}</p> : null}
      {rules.length > 0 ? (
        <>
          <p id={folders}>{text("job.files.rules")}</p>
          <ul className={classes.plain} aria-labelledby={folders}>
            {rules.map(({ source, destination }) => (
              <li key={`${source} ${destination}`}>
                <UserText>{source}</UserText> →{" "}
                {own ? (
                  <Link to="/c/$cluster/files" params={{ cluster }} search={{ path: destination }}>
                    <UserText>{destination}</UserText>
                  </Link>
                ) : (
                  <UserText>{destination}</UserText>
                )}
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </>
  );
}
