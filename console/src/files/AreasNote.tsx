/** What the areas of the bucket are, and where files are uploaded: nothing is above them. */

import { Link } from "@tanstack/react-router";
import { text } from "../texts";

export function AreasNote({ cluster, mayUpload }: { cluster: string; mayUpload: boolean }) {
  return (
    <>
      {text("files.areas")}{" "}
      {mayUpload ? (
        <Link to="/c/$cluster/files" params={{ cluster }} search={{ path: "data" }}>
          {text("files.upload_in_data")}
        </Link>
      ) : null}
    </>
  );
}
