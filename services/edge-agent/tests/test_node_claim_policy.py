"""The agent may delete the NodeClaims of its own NodePools alone: the policy of k8s/edge on a real API server."""

from collections.abc import AsyncIterator

import pytest
import yaml
from clusterra_edge_agent.kubernetes.machines.karpenter import INSTANCE_FAMILIES, pool_name
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.machine.process import until
from kube_account import Account, account
from kube_definitions import define, definitions
from kube_machines import KubeMachines
from kube_plane import RIGHTS, agent_account

POLICY = RIGHTS.parent / "node-claim-policy.yaml"


@pytest.fixture
async def policy(plane: ControlPlane) -> AsyncIterator[None]:
    """Karpenter's definitions and the policy are there."""
    await define(plane, await definitions("karpenter"))
    await plane.kubectl("apply", "--server-side", f"--filename={POLICY}")
    yield
    await plane.kubectl("delete", f"--filename={POLICY}")


async def deletion(agent: Account, name: str, *, dry_run: bool = False) -> int:
    """The status of the answer to the deletion of a NodeClaim."""
    query = {"dryRun": "All"} if dry_run else {}
    path = f"{agent.url}/apis/karpenter.sh/v1/nodeclaims/{name}"
    async with agent.http.delete(path, params=query) as answer:
        return answer.status


@pytest.mark.usefixtures("policy")
async def test_the_agents_account_deletes_only_node_claims_of_its_own_pools(
    plane: ControlPlane, namespace: str
) -> None:
    """`slurmd-web` is no pool of workers; `disguised` has the label of one, and belongs to another."""
    machines = KubeMachines(plane)
    # Kubernetes itself would delete a NodeClaim whose owner does not exist.
    await machines.claim("own", owners=[await machines.pool("slurmd-general")])
    await machines.claim("foreign", family="web")
    await machines.claim("disguised", owners=[await machines.pool("databases")])
    async with account(await agent_account(plane, namespace)) as agent:

        async def effective() -> bool:
            return await deletion(agent, "foreign", dry_run=True) == 403

        await until(effective, seconds=60, what="the policy to take effect", every=0.1)
        answers = {name: await deletion(agent, name) for name in ("own", "foreign", "disguised")}

    assert answers == {"own": 200, "foreign": 403, "disguised": 403}
    assert await machines.claims() == {"foreign", "disguised"}

    await plane.kubectl("delete", "nodeclaims,nodepools", "--all")

    assert await machines.claims() == set()


def test_the_policy_names_the_node_pool_of_each_family() -> None:
    policy, _ = yaml.safe_load_all(POLICY.read_text())

    own = policy["spec"]["validations"][0]["expression"]

    assert {word.strip('",[]') for word in own.split() if "slurmd-" in word} == set(map(pool_name, INSTANCE_FAMILIES))
