/** One template: tried with values, its definition, its versions, another version. */

import { Button, Tabs, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { templateQuery } from "../api/launchables";
import { profileQuery, refetchQuery } from "../api/queries";
import { useLiveRefetch } from "../live/useLive";
import { useIsAdmin } from "../app/useIsAdmin";
import { text } from "../texts";
import { Confirm } from "../ui/forms/Confirm";
import { UserText, visible } from "../ui/UserText";
import { Page } from "../ui/Page";
import { ProblemView } from "../ui/ProblemView";
import { Definition } from "./Definition";
import { removeTemplate, templatesQuery, versionsQuery } from "./queries";
import { TABS } from "./routes";
import { stateOf } from "./TemplatesPage";
import { TryTemplate } from "./TryTemplate";
import { Versions } from "./Versions";
import { WriteVersion } from "./WriteVersion";

const route = getRouteApi("/c/$cluster/templates/$template");

export function TemplatePage() {
  const { cluster, template: id } = route.useParams();
  const { tab = "try", version = null } = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const [deleting, setDeleting] = useState(false);
  const template = useQuery(templateQuery(id));
  const profile = useQuery(profileQuery);
  const isOwn = template.data?.origin === "workspace";
  const versions = useQuery({ ...versionsQuery(id), enabled: isOwn });
  useLiveRefetch(["template."], () => {
    return Promise.all([refetchQuery(template), isOwn ? refetchQuery(versions) : null]);
  });
  const data = template.data;
  const title = visible(data?.name ?? id);
  const isAdmin = useIsAdmin();
  // The author of a template is that of its first version.
  const isAuthor = versions.data?.versions[0]?.author === profile.data?.name;
  const mayWrite = profile.data?.role !== "viewer" && (isAdmin || isAuthor);
  const shown: readonly (typeof TABS)[number][] = isOwn ? TABS : TABS.filter((each) => each === "try" || each === "definition");
  return (
    <Page
      title={title}
      heading={<UserText>{title}</UserText>}
      actions={
        <>
          {data && stateOf(data) === "usable" ? (
            <Link to="/c/$cluster/submit" params={{ cluster }} search={{ template: id }}>
              {text("templates.use_long")}
            </Link>
          ) : null}
          {isOwn && mayWrite ? (
            <Button variant="default" onClick={() => setDeleting(true)}>
              {text("templates.delete.verb")}
            </Button>
          ) : null}
        </>
      }
    >
      {template.isError ? <ProblemView error={template.error} title={text("templates.unreadable")} retry={() => void template.refetch()} /> : null}
      {versions.isError ? <ProblemView error={versions.error} retry={() => void versions.refetch()} /> : null}
      {data ? (
        <>
          <Text mb={4}>
            <UserText>{data.description}</UserText>
          </Text>
          <Text size="sm" c="dimmed" mb="sm">
            <UserText>
              {[id, text(`templates.kind.${data.kind}`), text(`templates.origin.${data.origin}`), text(`templates.state_of.${stateOf(data)}`), data.category, data.tools.join(", ")]
                .filter((each) => each !== "")
                .join(" · ")}
            </UserText>
          </Text>
          <Tabs
            value={shown.includes(tab) ? tab : "try"}
            onChange={(chosen) => void navigate({ search: (before) => ({ ...before, tab: TABS.find((each) => each === chosen) }), replace: true })}
            keepMounted={false}
          >
            <Tabs.List mb="sm">
              {shown.map((each) => (
                <Tabs.Tab key={each} value={each}>
                  {text(`templates.tab.${each}`)}
                </Tabs.Tab>
              ))}
            </Tabs.List>
            <Tabs.Panel value="try">
              <TryTemplate cluster={cluster} template={data} version={version} mayRender={profile.data?.role !== "viewer"} />
            </Tabs.Panel>
            <Tabs.Panel value="definition">
              <Definition template={data} version={version} />
            </Tabs.Panel>
            <Tabs.Panel value="versions">
              <Versions cluster={cluster} id={id} versions={versions.data?.versions ?? []} isAdmin={isAdmin} />
            </Tabs.Panel>
            <Tabs.Panel value="write">
              {versions.data && profile.data ? (
                <WriteVersion cluster={cluster} person={profile.data.id} mayWrite={mayWrite} id={id} versions={versions.data.versions} />
              ) : null}
            </Tabs.Panel>
          </Tabs>
        </>
      ) : null}
      <Confirm
        opened={deleting}
        close={() => setDeleting(false)}
        title={text("templates.delete.title")}
        verb={text("templates.delete.verb")}
        act={async () => {
          await removeTemplate(id);
          await queries.invalidateQueries({ queryKey: templatesQuery.queryKey });
          await navigate({ to: "/c/$cluster/templates", params: { cluster }, search: {} });
        }}
      >
        <UserText>{text("templates.delete.text", { name: title })}</UserText>
      </Confirm>
    </Page>
  );
}
