/** Where people choose how to sign in: at an issuer, or at that of their e-mail address. */

import { Button, Divider, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { api, body } from "../api/client";
import type { ServedIssuer } from "../api/schema";
import { text } from "../texts";
import { Empty } from "../ui/Empty";
import { visible } from "../ui/UserText";
import { ProblemView } from "../ui/ProblemView";
import { ByAddress } from "./ByAddress";
import { loginAddress, ownPath } from "./returnTo";
import { Welcome } from "./Welcome";

const route = getRouteApi("/sign-in");
const MOST_BUTTONS = 12;

export function SignInPage() {
  const returnTo = ownPath(route.useSearch().return_to);
  const issuers = useQuery({
    queryKey: ["issuers"],
    queryFn: ({ signal }) => body(api.GET("/v1/auth/issuers", { signal })),
  });
  const served = issuers.data?.issuers ?? [];
  return (
    <Welcome title={text("sign_in.title")}>
      {returnTo === "/" ? null : (
        <Text size="sm" c="dimmed">
          {text("sign_in.comes_back")}
        </Text>
      )}
      {issuers.isError ? (
        <ProblemView error={issuers.error} title={text("sign_in.unknown_issuers")} retry={() => void issuers.refetch()} />
      ) : null}
      {issuers.isSuccess && served.length === 0 ? <Empty title={text("sign_in.none")}>{text("sign_in.none_details")}</Empty> : null}
      <Stack gap="xs" mih={36}>
        {served.slice(0, MOST_BUTTONS).map((issuer) => (
          <Button
            key={issuer.name}
            component="a"
            href={loginAddress({ issuer: issuer.name }, returnTo)}
            size="sm"
            variant={issuer.default ? "filled" : "default"}
          >
            {served.length === 1 ? text("sign_in.default") : text("sign_in.with", { issuer: nameOf(issuer) })}
          </Button>
        ))}
      </Stack>
      {served.length > 1 ? (
        <>
          <Divider label={text("sign_in.or")} />
          <ByAddress returnTo={returnTo} />
        </>
      ) : null}
    </Welcome>
  );
}

/** What people know an issuer by. */
function nameOf({ name, kind, issuer }: ServedIssuer): string {
  if (kind === "google") return text("sign_in.google");
  if (kind === "entra") return text("sign_in.entra");
  return visible(name === "default" && URL.canParse(issuer) ? new URL(issuer).host : name);
}
