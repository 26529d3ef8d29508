"""What holds for the tests of all packages."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

FIRST = (
    "tests/test_mixed_queue.py",
    "services/edge-agent/tests/test_lease.py",
    "tests/test_kubernetes_edge.py",
    "services/scaler/tests/test_head_reservation_histories.py",
    "services/edge-agent/tests/test_http_fallback.py",
    "services/scaler/tests/test_overdue_histories.py",
    "services/edge-agent/tests/test_nodesets.py",
    "services/proxy/tests/test_watch.py",
    "services/edge-agent/tests/test_kubernetes_chaos.py",
    "lab/tests/test_kube_control_plane.py",
    "services/edge-agent/tests/test_edge_status.py",
    "lab/tests/test_cli.py",
    "services/proxy/tests/test_admission.py",
    "lab/tests/test_slurm.py",
    "libs/runtime/tests/test_lease.py",
    "services/scaler/tests/test_packing_limits.py",
    "services/edge-agent/tests/test_attached_manifests.py",
    "services/scaler/tests/test_packing.py",
    "services/edge-agent/tests/test_manifests.py",
    "libs/runtime/tests/test_dynamodb.py",
    "services/scaler/tests/test_scaler_process.py",
    "services/gateway/tests/test_schemathesis.py",
    "tests/test_worker_loss.py",
    "tests/test_scale_down.py",
    "tests/test_chaos.py",
    "tests/test_why.py",
)
"""The files that take longest begin first, so that no process is left alone with one in the end. Those that share the
lab of tests/conftest.py come behind the others: it stays until the end of a process that has begun it."""

# A shell that starts the suite in the background lets all that descends from it ignore SIGINT, also what a test starts
# to see it end by that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the machine's affair, and it runs other tests beside this one. The suite plays the same
# few examples each time; `make test-histories` plays others, and more.
WHOLE = "HISTORIES" in os.environ
settings.register_profile("suite", deadline=None, derandomize=not WHOLE, max_examples=100 if WHOLE else 40)
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes long at the beginning."""
    order = {Path(__file__).parent / path: number for number, path in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


@pytest.fixture(autouse=True)
def _logging_of_its_own() -> Iterator[None]:
    """Commands that a test runs in this process say what is logged from then on."""
    yield
    structlog.reset_defaults()
