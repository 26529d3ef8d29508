/** Accepts an invitation: whoever signs in with its address joins the workspace. */

import { Button, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, body } from "../api/client";
import { ProblemError } from "../api/problem";
import { text } from "../texts";
import { ProblemView } from "../ui/ProblemView";
import { Welcome } from "./Welcome";

const TOKEN = /^clusterra-invitation_[a-z0-9-]{1,39}_[0-9a-f]{16}_[A-Za-z0-9_-]{20,64}$/;

export function InvitationPage() {
  const navigate = useNavigate();
  const [token] = useState(() => location.hash.slice(1));
  // The token is no part of what this browser remembers of where it was.
  useEffect(() => void navigate({ to: "/invitation", replace: true }), [navigate]);
  const accept = useMutation({
    mutationFn: () => body(api.POST("/v1/auth/login", { body: { token, return_to: "/" } })),
    onSuccess: ({ location: address }) => location.assign(address),
    gcTime: 0,
  });
  const gone = accept.error instanceof ProblemError && [403, 404].includes(accept.error.status);
  if (!TOKEN.test(token)) {
    return (
      <Welcome title={text("sign_in.invitation.title")}>
        <Text>{text("sign_in.invitation.incomplete")}</Text>
        <Link to="/sign-in">{text("sign_in.instead")}</Link>
      </Welcome>
    );
  }
  return (
    <Welcome title={text("sign_in.invitation.title")}>
      <Text>{text("sign_in.invitation.details")}</Text>
      {accept.isError ? (
        <ProblemView error={accept.error} {...(gone ? { title: text("sign_in.invitation.gone") } : {})} />
      ) : null}
      <Button size="sm" onClick={() => accept.mutate()} loading={accept.isPending || accept.isSuccess}>
        {text("sign_in.invitation.accept")}
      </Button>
    </Welcome>
  );
}
