/** A page that cannot be shown. */

import { Button } from "@mantine/core";
import { useRouter, type ErrorComponentProps } from "@tanstack/react-router";
import { text } from "../texts";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";

export function Failure({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const again = () => {
    reset();
    void router.invalidate();
  };
  return (
    <Page title={text("app.failed_page")}>
      <ProblemView error={error} retry={again} />
      <Button mt="sm" variant="default" component="a" href="/">
        {text("app.home")}
      </Button>
    </Page>
  );
}
