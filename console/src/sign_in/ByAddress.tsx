/** Signs in where the people of an e-mail address's domain do. */

import { Button, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { problemOf, ProblemError, unreachable } from "../api/problem";
import { text } from "../texts";
import { ProblemView } from "../ui/ProblemView";
import { domainOf, loginAddress } from "./returnTo";

export function ByAddress({ returnTo }: { returnTo: string }) {
  const [address, setAddress] = useState("");
  const [wrong, setWrong] = useState(false);
  const login = useMutation({ mutationFn: (domain: string) => begin(domain, returnTo) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const domain = domainOf(address);
    setWrong(domain === null);
    if (domain !== null) login.mutate(domain);
  };
  const unknown = login.error instanceof ProblemError && login.error.status === 404;
  return (
    <form onSubmit={submit} noValidate>
      <TextInput
        type="email"
        name="email"
        autoComplete="email"
        size="sm"
        maxLength={320}
        label={text("sign_in.address")}
        value={address}
        onChange={(event) => {
          setAddress(event.currentTarget.value);
          setWrong(false);
          login.reset();
        }}
        error={wrong ? text("sign_in.no_address") : unknown ? text("sign_in.unknown_domain") : null}
      />
      <Button type="submit" size="sm" mt="xs" fullWidth variant="default" loading={login.isPending || login.isSuccess}>
        {text("sign_in.go_on")}
      </Button>
      {login.isError && !unknown ? <ProblemView error={login.error} /> : null}
    </form>
  );
}

/** Asks first whether the domain's people sign in here: as a page, the answer would be one of no page of ours. */
async function begin(domain: string, returnTo: string): Promise<void> {
  const address = loginAddress({ domain }, returnTo);
  const response = await fetch(address, { redirect: "manual", credentials: "same-origin" }).catch((cause: unknown) => {
    throw unreachable(cause);
  });
  if (response.type !== "opaqueredirect") throw await problemOf(response);
  location.assign(address);
}
