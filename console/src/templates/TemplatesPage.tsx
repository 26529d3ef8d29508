/** Templates of jobs. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function TemplatesPage() {
  return <Page title={text("app.page.templates")}>{null}</Page>;
}
