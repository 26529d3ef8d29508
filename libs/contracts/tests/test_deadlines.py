"""Whoever asks waits longer than whoever answers."""

import itertools

import pytest
from clusterra_contracts.rpc.deadlines import (
    BEGIN_SECONDS,
    CLOCK_SKEW_SECONDS,
    DEADLINES,
    HTTP_SECONDS,
    READ,
    READ_SECONDS,
    REPEAT_READ_SECONDS,
    SETTLED_SECONDS,
    SLURM_MESSAGE_SECONDS,
    SUBMIT,
    WATCHED,
    WRITE_SECONDS,
    Deadlines,
)


@pytest.mark.parametrize("deadlines", DEADLINES.values(), ids=DEADLINES)
def test_each_wait_nests_in_the_next(deadlines: Deadlines) -> None:
    waits = [SLURM_MESSAGE_SECONDS, deadlines.slurmrestd, deadlines.proxy, deadlines.gateway, HTTP_SECONDS]

    assert all(inner + 1 < outer for inner, outer in itertools.pairwise(waits)), waits


def test_the_proxy_has_time_for_the_requests_of_each_operation() -> None:
    assert SUBMIT.proxy >= BEGIN_SECONDS + WRITE_SECONDS
    assert DEADLINES["get"].proxy >= 2 * READ_SECONDS
    assert DEADLINES["cancel"].proxy >= READ_SECONDS + WRITE_SECONDS


def test_a_read_elsewhere_leaves_time_for_an_own_one() -> None:
    assert WATCHED.gateway + 5 < READ.proxy
    assert REPEAT_READ_SECONDS[-1] + WATCHED.proxy <= READ.gateway


def test_a_claim_settles_after_every_wait_for_its_attempt() -> None:
    assert SUBMIT.gateway < SETTLED_SECONDS
    assert BEGIN_SECONDS + WRITE_SECONDS + 2 * CLOCK_SKEW_SECONDS < SETTLED_SECONDS
