/** The person: their role, tokens, theme, and the way out. */

import { Menu, Text, UnstyledButton, useMantineColorScheme, type MantineColorScheme } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleUser } from "lucide-react";
import { Suspense, useState } from "react";
import { api, done } from "../../api/client";
import { profileQuery } from "../../api/queries";
import { useFeed } from "../../live/useLive";
import { text } from "../../texts";
import { UserText, visible } from "../../ui/UserText";
import classes from "./Bar.module.css";
import { FailedDialog, KeysDialog } from "../dialogs";
import { useKeysDialog } from "../keys";
import { forgetUser, leave } from "../session";

const SCHEMES: readonly MantineColorScheme[] = ["light", "dark", "auto"];

export function UserMenu({ cluster }: { cluster: string }) {
  const { data: profile } = useQuery(profileQuery);
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const [keysOpened, setKeysOpened] = useState(false);
  useKeysDialog(() => setKeysOpened(true));
  const signOut = useSignOut();
  if (profile === undefined) return null;
  const name = profile.display_name || profile.name;
  return (
    <>
      <Menu position="bottom-end" width={250}>
        <Menu.Target>
          <UnstyledButton className={classes.person} aria-label={text("app.person.menu", { name: visible(name) })}>
            <CircleUser size={16} aria-hidden />
            <span className={classes.name}>{visible(name)}</span>
          </UnstyledButton>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>
            <UserText cut>{profile.email || profile.name}</UserText>
            <Text size="xs">{text("app.person.role", { role: text(`app.role.${profile.role}`) })}</Text>
          </Menu.Label>
          <Menu.Item component={Link} to={`/c/${encodeURIComponent(cluster)}/tokens`}>
            {text("app.person.tokens")}
          </Menu.Item>
          <Menu.Item component="a" href="/v1/auth/device">
            {text("app.person.device")}
          </Menu.Item>
          <Menu.Item component="a" href="/v1/docs">
            {text("app.api")}
          </Menu.Item>
          <Menu.Item onClick={() => setKeysOpened(true)}>{text("app.keys.title")}</Menu.Item>
          <Menu.Divider />
          <Menu.Label>{text("app.theme.title")}</Menu.Label>
          <Menu.RadioGroup value={colorScheme} onChange={(chosen) => setColorScheme(chosen as MantineColorScheme)}>
            {SCHEMES.map((scheme) => (
              <Menu.RadioItem key={scheme} value={scheme}>
                {text(`app.theme.${scheme}`)}
              </Menu.RadioItem>
            ))}
          </Menu.RadioGroup>
          <Menu.Divider />
          <Menu.Item onClick={() => signOut.mutate()} disabled={signOut.isPending}>
            {text("app.sign_out")}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Suspense fallback={null}>
        {keysOpened ? <KeysDialog close={() => setKeysOpened(false)} /> : null}
        {signOut.isError ? (
          <FailedDialog title={text("app.sign_out_failed")} error={signOut.error} close={signOut.reset} />
        ) : null}
      </Suspense>
    </>
  );
}

function useSignOut() {
  const feed = useFeed();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => done(api.POST("/v1/auth/logout")),
    onSuccess: () => {
      forgetUser();
      feed.sessionChanged();
      leave(queries, "/sign-in");
    },
  });
}
