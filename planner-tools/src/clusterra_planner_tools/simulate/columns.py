"""Averages over equal intervals of time, for pictures."""


class Columns:
    """The mean of a quantity in each of `count` intervals from `begin` to `end`."""

    def __init__(self, begin: float, end: float, count: int) -> None:
        self._begin = begin
        self._count = count
        self._width = max(end - begin, 1.0) / count
        self.values = [0.0] * count

    def add(self, begin: float, end: float, value: float) -> None:
        """Add a quantity that has this value from `begin` to `end`."""
        first = int((begin - self._begin) / self._width)
        last = int((end - self._begin) / self._width)
        for column in range(max(first, 0), min(last, self._count - 1) + 1):
            left = self._begin + column * self._width
            overlap = min(end, left + self._width) - max(begin, left)
            if overlap > 0:
                self.values[column] += value * overlap / self._width
