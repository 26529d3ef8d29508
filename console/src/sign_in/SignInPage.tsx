/** Where people choose how to sign in. */

import { Button, Stack, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { api, body } from "../api/client";
import { text } from "../texts";
import { ProblemView } from "../ui/ProblemView";
import { visible } from "../ui/Foreign";

const route = getRouteApi("/sign-in");

export function SignInPage() {
  const { return_to } = route.useSearch();
  const issuers = useQuery({
    queryKey: ["issuers"],
    queryFn: ({ signal }) => body(api.GET("/v1/auth/issuers", { signal })),
  });
  return (
    <Stack component="main" align="center" gap="md" py={96}>
      <Title order={1} fz="xl">
        {text("sign_in.title")}
      </Title>
      {issuers.isError ? <ProblemView error={issuers.error} retry={() => void issuers.refetch()} /> : null}
      {issuers.data?.issuers.map(({ name }) => (
        <Button key={name} component="a" href={address(name, return_to)} size="sm">
          {issuers.data.issuers.length === 1 ? text("sign_in.default") : text("sign_in.with", { issuer: visible(name) })}
        </Button>
      ))}
    </Stack>
  );
}

function address(issuer: string, returnTo: string | undefined): string {
  return `/v1/auth/login?${new URLSearchParams({ issuer, return_to: returnTo ?? "/" }).toString()}`;
}
