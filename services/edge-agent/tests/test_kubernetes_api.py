"""Calls to a real API server, and a reflector of its pods. No scheduler takes them, so none of them starts."""

from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from clusterra_edge_agent.kubernetes.client.api import Api, Collection, connected
from clusterra_edge_agent.kubernetes.client.errors import ApiError, Conflict, Invalid, NotFound
from clusterra_edge_agent.kubernetes.client.resources import SHAPE_LABEL, Deployment, Pod
from clusterra_lab.kube.kubernetes import ControlPlane
from clusterra_lab.machine.process import until
from kube_reflector import followed
from kube_workers import Workers


@pytest.fixture
async def workers(plane: ControlPlane, namespace: str) -> Workers:
    return Workers(plane, namespace)


@pytest.fixture
async def api(plane: ControlPlane, workers: Workers) -> AsyncIterator[Api]:
    async with connected(workers.namespace, plane.kubeconfig) as api:
        yield api


async def deployment(api: Api) -> Deployment:
    (found,), _ = await api.list(Collection.deployments(api.namespace, SHAPE_LABEL))
    return found


async def until_pods(api: Api, number: int) -> list[Pod]:
    async def made() -> list[Pod]:
        pods, _ = await api.list(Collection.pods(api.namespace, SHAPE_LABEL))
        return pods if len(pods) == number else []

    return await until(made, seconds=60, what=f"{number} pods", every=0.05)


async def test_replicas_are_lowered_only_if_the_deployment_is_unchanged(api: Api, workers: Workers) -> None:
    name = await workers.deploy(schedulerName="nobody")
    found = await deployment(api)
    assert (found.name, found.shape, found.spec.replicas) == (name, "general-xs", 0)

    scaled = await api.scale(name, 3)
    assert scaled.spec.replicas == await workers.replicas() == 3
    with pytest.raises(Conflict):
        await api.scale(name, 1, version=found.metadata.resource_version)

    await until(lambda: _has_three_replicas(api), seconds=60, what="the controllers", every=0.05)
    await api.scale(name, 1, version=(await deployment(api)).metadata.resource_version)
    assert await workers.replicas() == 1
    with pytest.raises(NotFound):
        await api.scale("slurmd-none", 1)


async def _has_three_replicas(api: Api) -> bool:
    return (await deployment(api)).status.replicas == 3


async def test_a_pod_is_marked_and_deleted_by_its_uid(api: Api, workers: Workers) -> None:
    await workers.deploy(schedulerName="nobody", replicas=1)
    (pod,) = await until_pods(api, 1)
    assert not pod.started
    assert not pod.ready

    marked = await api.set_deletion_cost(pod, -5)
    assert (marked.cost, marked.metadata.uid) == (-5, pod.metadata.uid)
    assert (await api.set_deletion_cost(marked, 0)).metadata.annotations == {}

    stranger = pod.model_copy(update={"metadata": replace(pod.metadata, uid="another")})
    with pytest.raises(Invalid):
        await api.set_deletion_cost(stranger, 1)
    with pytest.raises(Conflict):
        await api.delete(stranger)
    assert (await api.delete(pod)).terminating

    (successor,) = await until_pods(api, 1)
    assert successor.metadata.uid != pod.metadata.uid
    with pytest.raises(NotFound):
        await api.delete(pod)


async def test_a_reflector_follows_each_change(api: Api, workers: Workers) -> None:
    name = await workers.deploy(schedulerName="nobody", replicas=2)
    async with followed(api) as (pods, changes):
        await until(lambda: len(pods.objects) == 2, seconds=60, what="two pods")
        await api.scale(name, 0)
        await until(lambda: not pods.objects, seconds=60, what="no pod")
    assert len(changes.came) == 2
    assert sorted(changes.came) == sorted(changes.went)


async def test_the_answer_about_a_pod_that_is_gone_changes_nothing(api: Api, workers: Workers) -> None:
    """The API server answers the deletion of a pod that ends at that moment without a version."""
    await workers.deploy(schedulerName="nobody", replicas=1)
    async with followed(api) as (pods, changes):
        (pod,) = await until_pods(api, 1)
        await until(lambda: pod.name in pods.objects, seconds=60, what="the pod to be observed")
        seen = pods.objects[pod.name]
        before = deepcopy(changes)

        pods.put(pod.model_copy(update={"metadata": replace(pod.metadata, resource_version="")}))

        assert pods.objects[pod.name] is seen
        assert changes == before


async def test_an_answer_is_applied_unless_the_watch_was_faster(api: Api, workers: Workers) -> None:
    await workers.deploy(schedulerName="nobody", replicas=1)
    async with followed(api) as (pods, _):
        (pod,) = await until(lambda: list(pods.objects.values()), seconds=60, what="a pod")
        marked = await api.set_deletion_cost(pod, -5)
        pods.put(marked)

        assert pods.objects[pod.name].cost == -5

        pods.put(pod)
        assert pods.objects[pod.name].cost == -5

        await api.delete(marked)
        await until(lambda: pod.name not in pods.objects, seconds=60, what="its removal")
        pods.put(marked)

        assert pod.name not in pods.objects


async def test_a_missing_kubeconfig_is_an_api_error(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="cannot connect to the API server"):
        async with connected("slurm", tmp_path / "none"):
            pass
