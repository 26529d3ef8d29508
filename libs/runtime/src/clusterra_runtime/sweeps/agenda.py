"""Which of the places that wait for a visit is visited next. Pure: the sweeper does what it says."""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

type Group = tuple[str, str]

MOST_REMEMBERED = 10_000
"""Of so many clusters it is remembered that their last visits failed."""


@dataclass(frozen=True, slots=True)
class Place:
    """What is visited: a record of a cluster, a cluster, or a tenant."""

    tenant: str
    cluster: str = ""
    record: str = ""
    routine: bool = field(default=False, compare=False)
    """Whether it is visited only for the case that an event was missed. Such places come after all others."""

    @property
    def group(self) -> Group:
        """Places of one cluster wait for the same Slurm."""
        return self.tenant, self.cluster

    def __str__(self) -> str:
        return "/".join(filter(None, (self.tenant, self.cluster, self.record)))


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many visits may be under way."""

    at_once: int
    per_cluster: int = 1
    failures_in_a_round: int | None = None
    """After so many failed visits, the other places of a cluster wait for the next round. None: they go on."""
    most_silent: int | None = None
    """`silent_at_once`; None: half of all."""
    most_of_tenant: int | None = None
    """`per_tenant`; None: three quarters of all."""
    remembers_silent: bool = False
    """Whether it is known also after a round without a place of a cluster that its last visit failed."""

    @property
    def silent_at_once(self) -> int:
        """How many visits may be to clusters whose last visit failed: each may take as long as a visit may."""
        return self.most_silent or max(self.at_once // 2, 1)

    @property
    def per_tenant(self) -> int:
        """How many visits may be to one tenant: all its clusters may be slow, and others then need room at once."""
        return self.most_of_tenant or max(self.at_once * 3 // 4, 1)


class Agenda:
    """The places that wait, and those whose visits are under way.

    Clusters that answered come before those that did not, urgent places before routine ones, the places of all tenants
    in turn, and those of one tenant in the order of their last visits. A place is visited once at a time. At most
    `per_tenant` visits are to one tenant, and at most `silent_at_once` to clusters that did not answer. So as long as
    visits end, each place has its turn.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._waiting = deque[Place]()
        self._held = defaultdict[Group | str | None, deque[Place]](deque)
        """What may not begin before a visit to its group ends; under None, before a visit to a silent cluster ends;
        under a tenant, before the tenant has room."""
        self._under_way = dict[Place, bool]()
        """The visits under way, and whether the last one to the cluster had failed when they began."""
        self._again = dict[Place, Place]()
        """Places that were asked for during their visit."""
        self._silent = set[Group]()
        self._failures = Counter[Group]()
        self._visited = dict[Place, int]()
        self._visits = 0

    def begin_round(self, places: Iterable[Place], *, woken: bool = False) -> None:
        """Let these places wait, in place of all that waited before.

        It is forgotten whether a cluster answered that has no place in the round: the memory is that of one round,
        unless the bounds say otherwise.
        One that is being visited waits only where the round is `woken`: what woke it may have come after the visit's
        look at the place.
        """
        listed = {place: place for place in places}
        groups = {place.group for place in listed}
        if not self._bounds.remembers_silent or len(self._silent) > MOST_REMEMBERED:
            self._silent &= groups
        self._failures.clear()
        self._visited = {place: at for place, at in self._visited.items() if place in listed}
        again = {place for place in self._under_way if woken or place in self._again}
        self._again = {place: place for place in listed if place in again}
        self._held.clear()
        self._waiting = deque(self._in_order([place for place in listed if place not in self._under_way]))

    def take(self) -> list[Place]:
        """The places whose visits begin now."""
        taken = []
        while self._waiting and len(self._under_way) < self._bounds.at_once:
            place = self._waiting.popleft()
            silent = place.group in self._silent
            if self._is_given_up(place.group):
                continue
            if sum(each.group == place.group for each in self._under_way) >= self._bounds.per_cluster:
                self._held[place.group].append(place)
                self._free(place.tenant)
            elif silent and self._silent_under_way() >= self._bounds.silent_at_once:
                self._held[None].append(place)
                self._free(place.tenant)
            elif not self._has_room(place.tenant):
                self._held[place.tenant].append(place)
            else:
                self._under_way[place] = silent
                taken.append(place)
        return taken

    def end(self, place: Place, *, failed: bool) -> None:
        """Note the end of a visit."""
        was_silent = self._under_way.pop(place)
        self._visits += 1
        self._visited[place] = self._visits
        (self._silent.add if failed else self._silent.discard)(place.group)
        self._failures[place.group] += failed
        again = self._again.pop(place, None)
        if again is not None:
            self._waiting.append(again)
        # One place begins for each visit that ends; what may not begin yet is held again.
        self._free(place.tenant)
        for freed in (place.group, None) if was_silent else (place.group,):
            if held := self._held.get(freed):
                self._waiting.appendleft(held.popleft())

    def _free(self, tenant: str) -> None:
        """Let the next place of a tenant wait that is held for others' sake, if the tenant has room."""
        if (held := self._held.get(tenant)) and self._has_room(tenant):
            self._waiting.appendleft(held.popleft())

    def _has_room(self, tenant: str) -> bool:
        return sum(each.tenant == tenant for each in self._under_way) < self._bounds.per_tenant

    def _is_given_up(self, group: Group) -> bool:
        most = self._bounds.failures_in_a_round
        return most is not None and self._failures[group] >= most

    def _silent_under_way(self) -> int:
        return sum(self._under_way.values())

    def _in_order(self, places: list[Place]) -> list[Place]:
        # Replicas that were started together begin with different places.
        random.shuffle(places)
        places.sort(key=lambda place: (place.routine, self._visited.get(place, 0)))
        taken = Counter(each.tenant for each in self._under_way)
        ranked: list[tuple[bool, bool, int, Place]] = []
        for place in places:
            ranked.append((place.group in self._silent, place.routine, taken[place.tenant], place))
            taken[place.tenant] += 1
        return [place for *_, place in sorted(ranked, key=lambda each: each[:3])]
