/** What runs, waits and costs now. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function HomePage() {
  return <Page title={text("app.page.home")}>{null}</Page>;
}
