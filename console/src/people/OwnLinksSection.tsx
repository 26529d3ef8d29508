/** One's own links that show jobs to whoever has them. */

import { Table, Text, Title } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { OwnLink } from "../api/schema";
import { ownLinksQuery, revokeLink } from "../shared_links/queries";
import { nameOf, whatOf } from "../shared_links/shown";
import { text } from "../texts";
import { Confirm } from "../ui/forms/Confirm";
import { UserText, visible } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import { ProblemView } from "../ui/ProblemView";
import { RowActions } from "../ui/tables/RowActions";
import { Rows } from "./Rows";

const HEADS = ["name", "job", "cluster", "shows", "created", "expires"] as const;

export function OwnLinksSection() {
  const queries = useQueryClient();
  const links = useQuery(ownLinksQuery);
  const [revoking, setRevoking] = useState<OwnLink | null>(null);
  const revoke = async ({ cluster_id: cluster, job_id: job, id }: OwnLink) => {
    await revokeLink({ cluster, job }, id);
    queries.setQueryData(ownLinksQuery.queryKey, (list) => list?.filter((each) => each.id !== id));
  };
  return (
    <section aria-label={text("shared_links.own.title")}>
      <Title order={2} fz="lg" mt="xl">
        {text("shared_links.own.title")}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {text("shared_links.own.details")}
      </Text>
      {links.isPending ? <Text c="dimmed">{text("ui.loading")}</Text> : null}
      {links.isError ? <ProblemView error={links.error} retry={() => void links.refetch()} /> : null}
      {links.data?.length === 0 ? <Text c="dimmed">{text("shared_links.own.none")}</Text> : null}
      <LinkRows links={links.data ?? []} revoke={setRevoking} />
      {revoking === null ? null : (
        <Confirm
          opened
          close={() => setRevoking(null)}
          title={text("shared_links.revoke_title")}
          verb={text("shared_links.revoke_verb")}
          act={() => revoke(revoking)}
        >
          <Text>
            <UserText>{nameOf(revoking)}</UserText> · {text("shared_links.revoke_details")}
          </Text>
        </Confirm>
      )}
    </section>
  );
}

function LinkRows({ links, revoke }: { links: readonly OwnLink[]; revoke: (link: OwnLink) => void }) {
  if (links.length === 0) return null;
  return (
    <Rows label={text("shared_links.own.title")} heads={[...HEADS.map((head) => text(`shared_links.own.${head}`)), ""]}>
      {links.map((link) => (
        <Table.Tr key={link.id}>
          <Table.Td>
            <UserText>{nameOf(link)}</UserText>
          </Table.Td>
          <Table.Td>
            <Link to="/c/$cluster/jobs/$job" params={{ cluster: link.cluster_id, job: link.job_id }}>
              {text("shared_links.own.of_job", { number: link.job_id })}
            </Link>
          </Table.Td>
          <Table.Td>
            <UserText>{link.cluster_id}</UserText>
          </Table.Td>
          <Table.Td>{whatOf(link)}</Table.Td>
          <Table.Td>
            <Moment at={link.created_at} />
          </Table.Td>
          <Table.Td>
            <Moment at={link.expires_at} />
          </Table.Td>
          <Table.Td w={40}>
            <RowActions
              of={visible(nameOf(link))}
              acts={[{ label: text("shared_links.revoke"), run: () => revoke(link), dangerous: true }]}
            />
          </Table.Td>
        </Table.Tr>
      ))}
    </Rows>
  );
}
