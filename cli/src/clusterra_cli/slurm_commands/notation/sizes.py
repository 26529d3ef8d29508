"""Sizes as Slurm's commands write them."""

_UNITS = "MGTPE"


def mebibytes(amount: int) -> str:
    """MiB in the largest unit in which it is whole, such as `300M` or `2G`."""
    unit = 0
    while amount and amount % 1024 == 0 and unit < len(_UNITS) - 1:
        amount //= 1024
        unit += 1
    return f"{amount}{_UNITS[unit]}"


def resources(items: str) -> dict[str, str]:
    """The parts of a text such as `cpu=1,mem=1G`."""
    return {name: value for name, _, value in (each.partition("=") for each in items.split(",") if "=" in each)}


def exact(amount: int) -> str:
    """A number in the largest unit in which it is whole, such as `1024K` or `12M`; without one below that."""
    unit = 0
    while amount and amount % 1024 == 0 and unit < len(_UNITS):
        amount //= 1024
        unit += 1
    return f"{amount}{('K' + _UNITS)[unit - 1]}" if unit else str(amount)
