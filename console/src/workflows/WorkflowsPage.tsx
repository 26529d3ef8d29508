/** Runs of jobs that depend on each other, and schedules. */

import { text } from "../texts";
import { Page } from "../ui/Page";

export function WorkflowsPage() {
  return <Page title={text("app.page.workflows")}>{null}</Page>;
}
