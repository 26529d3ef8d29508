/** A job, written and submitted. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function SubmitPage() {
  return <Page title={text("app.page.submit")}>{null}</Page>;
}
