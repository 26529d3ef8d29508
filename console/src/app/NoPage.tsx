/** An address that leads to no page. */

import { Text } from "@mantine/core";
import { text } from "../texts";
import { Page } from "../ui/Page";

export function NoPage() {
  return (
    <Page title={text("app.no_page")}>
      <Text c="dimmed">{text("app.no_page_details")}</Text>
    </Page>
  );
}
