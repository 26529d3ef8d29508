/** The tenant, and the choice of another one where the person belongs to several. */

import { Menu, Text, UnstyledButton } from "@mantine/core";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Building2, ChevronDown } from "lucide-react";
import { Suspense } from "react";
import { api, body } from "../../api/client";
import { profileQuery } from "../../api/queries";
import { useFeed } from "../../live/useLive";
import { text } from "../../texts";
import { UserText, visible } from "../../ui/UserText";
import classes from "./Bar.module.css";
import { FailedDialog } from "../dialogs";
import { leave, rememberTenantSwitch } from "../session";

const membershipsQuery = queryOptions({
  queryKey: ["memberships"],
  queryFn: ({ signal }) => body(api.GET("/v1/users/me/memberships", { signal })),
});

export function TenantChoice() {
  const { data: profile } = useQuery(profileQuery);
  const { data } = useQuery(membershipsQuery);
  const choice = useTenantChoice();
  const name = visible(profile?.tenant.name ?? "");
  if (data === undefined || data.memberships.length < 2) return <Text className={classes.tenant}>{name}</Text>;
  return (
    <>
      <Menu position="bottom-start">
        <Menu.Target>
          <UnstyledButton className={classes.chooser} aria-label={text("app.tenant.choose", { tenant: name })}>
            <span style={{ display: "flex", alignItems: "center", gap: 4 }}>
              <Building2 size={14} aria-hidden />
              <span className={classes.tenant}>{name}</span>
              <ChevronDown size={14} aria-hidden />
            </span>
          </UnstyledButton>
        </Menu.Target>
        <Menu.Dropdown mah="60vh" style={{ overflow: "auto" }}>
          <Menu.Label>{text("app.tenant.title")}</Menu.Label>
          {data.memberships.map(({ tenant, role, current }) => (
            <Menu.Item key={tenant.id} disabled={choice.isPending || current} onClick={() => choice.mutate(tenant.id)}>
              <UserText>{tenant.name || tenant.id}</UserText>{" "}
              <Text span size="xs" c="dimmed">
                {text(`app.role.${role}`)}
                {current ? ` · ${text("app.tenant.current")}` : ""}
              </Text>
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <Suspense fallback={null}>
        {choice.isError ? <FailedDialog title={text("app.tenant.failed")} error={choice.error} close={choice.reset} /> : null}
      </Suspense>
    </>
  );
}

/** Goes on in another tenant: the session is replaced, and all pages of it are loaded anew, with that tenant's rules. */
function useTenantChoice() {
  const queries = useQueryClient();
  const feed = useFeed();
  return useMutation({
    mutationFn: (tenant: string) =>
      body(api.POST("/v1/users/me/memberships/{tenant_id}/session", { params: { path: { tenant_id: tenant } } })),
    onSuccess: (membership) => {
      rememberTenantSwitch(membership.id);
      feed.sessionChanged();
      leave(queries, "/");
    },
  });
}
