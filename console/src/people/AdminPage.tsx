/** Members, tokens, clusters and the audit. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function AdminPage() {
  return <Page title={text("app.page.admin")}>{null}</Page>;
}
