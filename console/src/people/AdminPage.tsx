/** Admin: members, roles, tokens, service accounts, identity sources, clusters and the audit, each at its own address. */

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { profileQuery } from "../api/queries";
import { includes } from "../app/permissions";
import { text } from "../texts";
import { Empty } from "../ui/Empty";
import { Page } from "../ui/Page";
import classes from "./AdminPage.module.css";
import { AuditSection } from "./audit/AuditSection";
import { ClustersSection } from "./clusters/ClustersSection";
import { IdentitySourcesSection } from "./IdentitySourcesSection";
import { MembersSection } from "./members/MembersSection";
import { RolesSection } from "./RolesSection";
import { SECTIONS, isSection, type Section } from "./sections";
import { ServiceAccountsSection } from "./service_accounts/ServiceAccountsSection";
import { TokensSection } from "./tokens/TokensSection";
import { usePeopleLive } from "./usePeopleLive";

const route = getRouteApi("/c/$cluster/admin/$section");

const CONTENTS: Record<Section, ComponentType> = {
  members: MembersSection,
  roles: RolesSection,
  tokens: TokensSection,
  "service-accounts": ServiceAccountsSection,
  "identity-sources": IdentitySourcesSection,
  clusters: ClustersSection,
  audit: AuditSection,
};

export function AdminPage() {
  const { cluster, section } = route.useParams();
  const { data: profile } = useQuery(profileQuery);
  usePeopleLive();
  if (profile === undefined || !isSection(section)) return null;
  if (!includes(profile.role, "admin")) {
    return (
      <Page title={text("app.page.admin")}>
        <Empty title={text("app.needs_role", { role: text("app.role.admin") })}>
          {text("app.needs_role_details", { role: text(`app.role.${profile.role}`) })}
        </Empty>
      </Page>
    );
  }
  const Content = CONTENTS[section];
  return (
    <Page title={`${text(`people.section.${section}`)} · ${text("app.page.admin")}`} heading={text("app.page.admin")}>
      <nav className={classes.sections} aria-label={text("people.sections")}>
        {SECTIONS.map((each) => (
          <Link
            key={each}
            to="/c/$cluster/admin/$section"
            params={{ cluster, section: each }}
            search={{}}
            className={classes.section}
            activeOptions={{ includeSearch: false }}
            activeProps={{ "aria-current": "page" }}
          >
            {text(`people.section.${each}`)}
          </Link>
        ))}
      </nav>
      <Content key={section} />
    </Page>
  );
}
