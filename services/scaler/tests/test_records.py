"""A stored state fits into an item, and is the same when it is read."""

from random import Random

from clusterra_scaler.planner.observed.booking import Booking
from clusterra_scaler.records import packed_state, unpacked_state
from fleet_examples import at, state, target

DYNAMODB_BYTES = 400_000


def test_a_state_with_bookings_for_ten_thousand_jobs_fits_into_an_item() -> None:
    random = Random(1)
    names = (f"general-small-{random.getrandbits(25):05x}" for _ in range(10_000))
    bookings = tuple(
        Booking(shape="general-small", worker=name, jobs={str(number + 1): 1}, bought_at=at(number % 60))
        for number, name in enumerate(names)
    )
    large = state(target("general-small", 10_000)).model_copy(update={"bookings": bookings})
    assert len(large.model_dump_json()) > 2 * DYNAMODB_BYTES

    stored = packed_state(large)

    assert len(stored) < DYNAMODB_BYTES * 0.75
    assert unpacked_state(stored) == large


def test_a_state_stored_as_plain_json_can_be_read() -> None:
    small = state(target("general-small", 3))

    assert unpacked_state(small.model_dump_json()) == small
