"""Notes of costs: exact amounts, and nothing where nothing is known."""

from decimal import Decimal

from clusterra_contracts.rpc.costs import CostOfJob
from clusterra_proxy.slurmrestd.comment import Comment
from clusterra_proxy.watch.cost_notes import note_of
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, 10**15), st.booleans(), st.booleans())
def test_a_note_has_the_exact_amount_and_says_what_is_wrong_with_it(micro_usd: int, stale: bool, unknown: bool) -> None:
    cost = CostOfJob(job_id="42", micro_usd=micro_usd, running=True, stale=stale, unknown=unknown)

    note = note_of(cost)

    assert note is not None
    values = dict(pair.split("=") for pair in note.removeprefix("clusterra:").split(";"))
    assert Decimal(values.pop("cost_usd")) * 1_000_000 == micro_usd
    assert values == ({"stale": "1"} if stale else {}) | ({"partial": "1"} if unknown else {})
    assert Comment.parse(note) == Comment()


def test_an_unknown_cost_makes_no_note() -> None:
    assert note_of(CostOfJob(job_id="42", micro_usd=None, running=True, unknown=True)) is None
