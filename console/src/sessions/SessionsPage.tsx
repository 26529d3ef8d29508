/** Interactive sessions. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function SessionsPage() {
  return <Page title={text("app.page.sessions")}>{null}</Page>;
}
