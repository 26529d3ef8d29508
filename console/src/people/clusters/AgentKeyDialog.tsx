/** Makes a new key for the agent of a cluster. The old one stays valid for a while. */

import { Text } from "@mantine/core";
import { useState } from "react";
import { api, body } from "../../api/client";
import type { Cluster } from "../../api/schema";
import { text } from "../../texts";
import { visible } from "../../ui/UserText";
import { Lifetime } from "../../ui/forms/Lifetime";
import { SecretDialog } from "../../ui/forms/SecretDialog";
import { OVERLAPS } from "../fields";

export function AgentKeyDialog({ cluster, close }: { cluster: Cluster; close: () => void }) {
  const [overlap, setOverlap] = useState<number>(OVERLAPS[2]);
  const rotate = async (key: string) => {
    const params = { path: { cluster_id: cluster.id }, header: { "Idempotency-Key": key } };
    const made = await body(
      api.POST("/v1/clusters/{cluster_id}/agent-keys", { params, body: { overlap_seconds: overlap } }),
    );
    return made.agent_key;
  };
  return (
    <SecretDialog
      title={text("people.clusters.key")}
      made={text("people.clusters.made_key")}
      verb={text("people.clusters.make_key")}
      ready
      make={rotate}
      advice={text("people.clusters.key_advice")}
      close={close}
    >
      <Text>{text("people.clusters.key_details", { name: visible(cluster.name || cluster.id) })}</Text>
      <Lifetime label={text("people.overlap")} choices={OVERLAPS} value={overlap} onChange={setOverlap} />
    </SecretDialog>
  );
}
