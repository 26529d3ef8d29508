"""Which jobs a node accepts by its Extra."""

import pytest
from clusterra_contracts.node_extra import OPEN, admits, closed


@pytest.mark.parametrize(
    ("node_extra", "extra", "accepted"),
    [
        (OPEN, "open=1|short=1", True),
        (closed(["short"]), "open=1|short=1", True),
        (closed(["long"]), "open=1|short=1", False),
        (closed(), "", True),
        ("", "open=1|short=1", False),
        ("rack 5", "open=1|short=1", False),
        ("rack 5", "", True),
    ],
)
def test_a_class_is_accepted_where_the_extra_says_so(node_extra: str, extra: str, accepted: bool) -> None:
    assert admits(node_extra, extra) is accepted
