/** What bounds a cluster: its most workers, and the shapes that may be bought, each with its price and its most. */

import { Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { clusterQuery } from "../../api/queries";
import { text } from "../../texts";
import { count, money } from "../../ui/format";
import { UserText, visible } from "../../ui/UserText";
import { ProblemView } from "../../ui/ProblemView";
import { Rows } from "../Rows";

const HEADS = ["shape", "cpus", "memory", "gpus", "price", "most"] as const;
const NUMERIC = HEADS.slice(1);

export function ClusterLimits({ cluster }: { cluster: string }) {
  const read = useQuery(clusterQuery(cluster));
  const detail = read.data;
  return (
    <section aria-labelledby="limits">
      <Title order={2} fz="md" mt="lg" id="limits">
        {text("people.limits.title", { name: visible(detail?.name || cluster) })}
      </Title>
      {read.isError ? <ProblemView error={read.error} retry={() => void read.refetch()} /> : null}
      {detail === undefined ? null : (
        <>
          <Text size="sm" mb="xs">
            {text("people.limits.workers", { count: detail.max_workers, partition: visible(detail.partition) })}
          </Text>
          <Rows
            label={text("people.limits.title", { name: visible(detail.name) })}
            heads={HEADS.map((head) => text(`people.limits.${head}`))}
            numeric={NUMERIC.map((head) => text(`people.limits.${head}`))}
          >
            {detail.shapes.map((shape) => (
              <Table.Tr key={shape.name}>
                <Table.Td>
                  <UserText>{shape.name}</UserText>
                </Table.Td>
                <Table.Td ta="end" className="number">
                  {count(shape.vcpu)}
                </Table.Td>
                <Table.Td ta="end" className="number">
                  {count(shape.memory_gib)}
                </Table.Td>
                <Table.Td ta="end" className="number">
                  {shape.gpu_count === 0 ? "–" : <UserText>{`${shape.gpu_count} ${shape.gpu_model}`}</UserText>}
                </Table.Td>
                <Table.Td ta="end" className="number">
                  {money(Number(shape.usd_per_hour))}
                </Table.Td>
                <Table.Td ta="end" className="number">
                  {shape.most === null ? text("people.limits.no_bound") : count(shape.most)}
                </Table.Td>
              </Table.Tr>
            ))}
          </Rows>
        </>
      )}
    </section>
  );
}
