/** What jobs and workers cost. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function CostsPage() {
  return <Page title={text("app.page.costs")}>{null}</Page>;
}
