/** The workers and the decisions about them. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function FleetPage() {
  return <Page title={text("app.page.fleet")}>{null}</Page>;
}
