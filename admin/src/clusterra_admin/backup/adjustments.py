"""What a restore changes in items of an older record, so that nothing that was given out is given out again."""

from typing import Any

import orjson
from clusterra_contracts.registry import ClusterBinding
from clusterra_gateway.accounts.keyspace import ACCOUNTS, CLUSTERS
from clusterra_scaler.fleet_table import FLEETS
from clusterra_scaler.planner.observed.state import FleetState
from clusterra_scaler.records import packed_state, unpacked_state

from clusterra_admin.backup.dynamodb_json import Record
from clusterra_admin.backup.situation import Situation


class Adjustments:
    """The changes, all computed from the backup and the target's situation, so that a repetition changes the same.

    - A tenant's next uid is `uid_gap` above the backup's: a uid of somebody who is not in the backup is not reused.
    - A cluster's binding gets a higher version than the one in the registry, which would otherwise count as newer.
    - A fleet's fence and generation are at least those that its desired state or its edge shows.
    - A fleet names no victims, and no drains that were accepted: they were observed before the backup.
    """

    def __init__(self, situation: Situation, uid_gap: int) -> None:
        self._situation = situation
        self._uid_gap = uid_gap

    def apply(self, table: str, record: Record) -> Record:
        """Return the item to write. Raises ValueError or zlib.error for an item that cannot be read."""
        pk, sk = record["pk"].get("S", ""), record["sk"].get("S", "")
        if table == ACCOUNTS.name and sk == "uid" and "given" in record:
            backed_up = int(record["given"]["N"]) + self._uid_gap
            return record | {"given": {"N": str(max(backed_up, self._situation.given_uids.get(pk, 0)))}}
        if table == ACCOUNTS.name and pk == CLUSTERS:
            return self._cluster(sk, record)
        if table == FLEETS.name and sk == "fleet":
            return self._fleet(pk, record)
        return record

    def _cluster(self, key: str, record: Record) -> Record:
        binding = ClusterBinding.model_validate_json(record["binding"]["S"])
        there = self._situation.bindings.get(key)
        if there is None or there.version < binding.version or there == binding:
            return record
        if there.model_copy(update={"version": binding.version}) == binding:
            return record | {"binding": {"S": there.model_dump_json()}}
        following = binding.model_copy(update={"version": there.version + 1})
        return record | {"binding": {"S": following.model_dump_json()}}

    def _fleet(self, key: str, record: Record) -> Record:
        fence, generation = self._situation.orders.get(key, (0, 0))
        stored: Any = record["state"].get("B", record["state"].get("S"))
        state = _without_removals(unpacked_state(stored))
        state = state.model_copy(
            update={"fence": max(state.fence, fence), "generation": max(state.generation, generation)}
        )
        return record | {
            "state": {"B": packed_state(state)},
            "fence": {"N": str(state.fence)},
            "generation": {"N": str(state.generation)},
        }


def _without_removals(state: FleetState) -> FleetState:
    """The state without removals that were under way: a NodeSet may have given a victim's name to a new worker.

    A worker that is still drained and idle is drained again, and named as a victim by a new snapshot.
    """
    targets = tuple(target.model_copy(update={"victims": (), "unregistered": ()}) for target in state.targets)
    return state.model_copy(update={"targets": targets, "drains": {}, "undrains": {}})


def readable(record: Record) -> str:
    """The key of an item, for messages."""
    return orjson.dumps([record["pk"].get("S", "?"), record["sk"].get("S", "?")]).decode()
