"""Money in answers: a decimal string and its currency, never a float."""

from typing import Literal

from clusterra_gateway.http.answers.responses import ResponseBody

CURRENCY: Literal["USD"] = "USD"
"""Prices are in US dollars."""


class Money(ResponseBody):
    """An amount with six decimals, such as `1.250000`."""

    amount: str
    currency: Literal["USD"] = CURRENCY


def decimal(micro_usd: int) -> str:
    """Millionths as a decimal string."""
    whole, part = divmod(abs(micro_usd), 1_000_000)
    return f"{'-' if micro_usd < 0 else ''}{whole}.{part:06d}"


def money(micro_usd: int | None) -> Money | None:
    """Millionths as money; None stays unknown."""
    return None if micro_usd is None else Money(amount=decimal(micro_usd))
