/** The events of the cluster. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function ActivityPage() {
  return <Page title={text("app.page.activity")}>{null}</Page>;
}
