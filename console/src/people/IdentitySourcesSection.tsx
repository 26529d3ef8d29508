/** Where Unix identities come from, and what was not taken from there. No events tell of it. */

import { List, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { text } from "../texts";
import { count } from "../ui/format";
import { Empty } from "../ui/Empty";
import { UserText } from "../ui/UserText";
import { Moment } from "../ui/Moment";
import { ProblemView } from "../ui/ProblemView";
import { RefreshBar } from "./RefreshBar";
import { identitySourcesQuery } from "./queries";
import { Rows } from "./Rows";

const HEADS = ["name", "kind", "users", "read", "problem", "refused"] as const;

export function IdentitySourcesSection() {
  const sources = useQuery(identitySourcesQuery);
  const found = sources.data?.identity_sources ?? [];
  return (
    <>
      <RefreshBar query={sources} />
      {sources.isError ? <ProblemView error={sources.error} retry={() => void sources.refetch()} /> : null}
      {sources.isSuccess && found.length === 0 ? (
        <Empty title={text("people.sources.none")}>{text("people.sources.none_details")}</Empty>
      ) : null}
      {found.length > 0 ? (
        <Rows label={text("people.section.identity-sources")} heads={HEADS.map((head) => text(`people.sources.${head}`))} numeric={[text("people.sources.users")]}>
          {found.map((source) => (
            <Table.Tr key={source.name}>
              <Table.Td>
                <UserText>{source.name}</UserText>
              </Table.Td>
              <Table.Td>{text(`people.sources.kinds.${source.kind}`)}</Table.Td>
              <Table.Td ta="end" className="number">{count(source.users)}</Table.Td>
              <Table.Td>
                <Moment at={source.read_at} />
              </Table.Td>
              <Table.Td>
                {source.problem === "" ? text("people.sources.fine") : <UserText>{source.problem}</UserText>}
                {source.problem !== "" && source.tried_at !== null ? (
                  <Text size="xs" c="dimmed">
                    {text("people.sources.tried")} <Moment at={source.tried_at} />
                  </Text>
                ) : null}
              </Table.Td>
              <Table.Td>
                <span className="number">{count(source.refused)}</span>
                <List size="xs">
                  {source.reasons.map((reason) => (
                    <List.Item key={reason}>
                      <UserText>{reason}</UserText>
                    </List.Item>
                  ))}
                </List>
              </Table.Td>
            </Table.Tr>
          ))}
        </Rows>
      ) : null}
    </>
  );
}
