/** The files of the bucket and of the shared folder. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function FilesPage() {
  return <Page title={text("app.page.files")}>{null}</Page>;
}
