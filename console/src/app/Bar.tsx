/** The bar above all pages: tenant and cluster, whether what is shown is live, and the person. */

import { Group, Menu, Select, Text, UnstyledButton } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, done } from "../api/client";
import { clustersQuery, profileQuery } from "../api/queries";
import { useFeed } from "../live/useLive";
import { text } from "../texts";
import { visible } from "../ui/Foreign";
import classes from "./Bar.module.css";
import { LiveMark } from "./LiveMark";

export function Bar({ cluster }: { cluster: string }) {
  const { data: profile } = useQuery(profileQuery);
  const { data: clusters } = useQuery(clustersQuery);
  const navigate = useNavigate();
  const options = (clusters?.clusters ?? []).map(({ id, name }) => ({ value: id, label: visible(name || id) }));
  return (
    <header className={classes.bar}>
      <Group gap="xs" wrap="nowrap" miw={0}>
        <Text fw={600} className={classes.tenant}>
          {visible(profile?.tenant.name ?? "")}
        </Text>
        <Select
          aria-label={text("app.cluster")}
          data={options}
          value={cluster}
          onChange={(chosen) => chosen && void navigate({ to: "/c/$cluster", params: { cluster: chosen } })}
          w={150}
        />
      </Group>
      <Group gap="md" wrap="nowrap">
        <LiveMark />
        {profile ? <Person name={profile.display_name || profile.name} /> : null}
      </Group>
    </header>
  );
}

function Person({ name }: { name: string }) {
  const feed = useFeed();
  const signOut = useMutation({
    mutationFn: () => done(api.POST("/v1/auth/logout")),
    onSuccess: () => {
      feed.sessionChanged();
      location.assign("/sign-in");
    },
  });
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <UnstyledButton className={classes.person}>{visible(name)}</UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component="a" href="/v1/docs">
          {text("app.api")}
        </Menu.Item>
        <Menu.Item onClick={() => signOut.mutate()} disabled={signOut.isPending}>
          {text("app.sign_out")}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
