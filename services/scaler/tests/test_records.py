"""What is kept of a cluster fits into an item, and is the same when it is read."""

from random import Random

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.records import packed_state, unpacked_state
from fleet_examples import at, state, target

DYNAMODB_BYTES = 400_000


def test_a_state_with_bookings_for_ten_thousand_jobs_fits_into_an_item() -> None:
    chance = Random(1)
    names = (f"general-small-{chance.getrandbits(25):05x}" for _ in range(10_000))
    bookings = tuple(
        Booking(shape="general-small", worker=name, jobs={str(number + 1): 1}, bought_at=at(number % 60))
        for number, name in enumerate(names)
    )
    decided = state(target("general-small", 10_000)).model_copy(update={"bookings": bookings})
    assert len(decided.model_dump_json()) > 2 * DYNAMODB_BYTES
    kept = packed_state(decided)
    assert len(kept) < DYNAMODB_BYTES * 0.75
    assert unpacked_state(kept) == decided


def test_a_state_that_was_kept_as_json_is_read() -> None:
    decided = state(target("general-small", 3))
    assert unpacked_state(decided.model_dump_json()) == decided
