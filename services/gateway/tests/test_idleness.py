"""When an idle session is warned and cancelled: never without the whole time of a warning, never one in use."""

from clusterra_gateway.sessions.idle_cull import WARNING_SECONDS, decide, warning_seconds
from hypothesis import given
from hypothesis import strategies as st

CULL = st.floats(60, 86_400)
USES = st.lists(st.tuples(st.floats(0.1, 7200), st.booleans()), max_size=40)


@given(CULL, USES)
def test_a_session_ends_only_after_its_idle_time_and_a_whole_warning(
    cull_seconds: float, looks: list[tuple[float, bool]]
) -> None:
    """`looks`: the time until each look at the session, and whether it was used in between."""
    now, used_at = 0.0, 0.0
    warned_at: float | None = None
    for pause, used in looks:
        now += pause
        used_at = now if used else used_at
        match decide(now - used_at, cull_seconds, None if warned_at is None else now - warned_at):
            case "warn":
                assert warned_at is None
                warned_at = now
            case "withdraw":
                assert warned_at is not None
                warned_at = None
            case "cancel":
                assert now - used_at >= cull_seconds
                assert warned_at is not None
                assert now - warned_at >= warning_seconds(cull_seconds)
                assert used_at <= warned_at
                return


def test_the_owner_is_warned_five_minutes_before() -> None:
    assert decide(3600 - WARNING_SECONDS - 1, 3600, None) == "keep"
    assert decide(3600 - WARNING_SECONDS, 3600, None) == "warn"


def test_a_session_that_is_used_again_is_not_cancelled() -> None:
    assert decide(10, 3600, 200) == "withdraw"


def test_a_session_that_nobody_looked_at_for_long_is_warned_first() -> None:
    assert decide(100_000, 3600, None) == "warn"
    assert decide(100_000, 3600, 10) == "keep"
    assert decide(100_000, 3600, WARNING_SECONDS) == "cancel"
