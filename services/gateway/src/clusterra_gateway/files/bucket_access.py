"""What a caller may reach of a cluster's files: the keys of their paths, and who may write where."""

from collections.abc import Iterable
from dataclasses import dataclass

from clusterra_contracts.identity import ClusterRef

from clusterra_gateway.accounts.roles import manages
from clusterra_gateway.files.buckets import Bucket, Buckets
from clusterra_gateway.files.paths import (
    AREAS,
    SHARED,
    FilePath,
    KeySpace,
    NoSuchArea,
    PathRefused,
    file_path,
    folder_path,
)
from clusterra_gateway.http.requests.errors import Forbidden, InvalidRequest, NotFound
from clusterra_gateway.identity.access.unix_users import Person

_AREAS = ", ".join(f"{area}/" for area in AREAS)


@dataclass(frozen=True)
class Place:
    """A file or a folder, and its key or prefix in the bucket."""

    path: FilePath
    key: str


@dataclass(frozen=True)
class BucketAccess:
    """A person at the bucket of one cluster. Its methods raise InvalidRequest, NotFound and Forbidden."""

    bucket: Bucket
    person: Person
    keys: KeySpace

    @classmethod
    async def of(cls, buckets: Buckets, person: Person, ref: ClusterRef) -> "BucketAccess":
        """The access of a person. Raises RequestError as `Buckets.of` does."""
        return cls(await buckets.of(ref), person, KeySpace(ref, person.member.id))

    def readable(self, text: str) -> Place:
        """A file that the caller may read, whether it exists or not."""
        try:
            path = file_path(text)
            return Place(path, self.keys.key(path))
        except PathRefused as refused:
            raise _refusal(refused) from None

    def folder(self, text: str) -> Place:
        """A folder that the caller may list."""
        try:
            path = folder_path(text)
            return Place(path, self.keys.prefix(path))
        except PathRefused as refused:
            raise _refusal(refused) from None

    def writable(self, text: str) -> Place:
        """A file that the caller may make, change and delete."""
        place = self.readable(text)
        self.require_write(place.path)
        return place

    def require_write(self, path: FilePath) -> None:
        """Refuses a caller who may not write here: in `shared` all but admins."""
        self.person.require("member", "files:write")
        if path.area == SHARED and not manages(self.person.member.role):
            raise Forbidden("only admins write to shared/", hint="write to scripts/, data/ or outputs/")

    def shown(self, keys: Iterable[str]) -> tuple[dict[str, FilePath], int]:
        """The paths of keys, and how many have none."""
        paths: dict[str, FilePath] = {}
        unreadable = 0
        for key in keys:
            try:
                paths[key] = self.keys.path(key)
            except PathRefused:
                unreadable += 1
        return paths, unreadable


def _refusal(refused: PathRefused) -> InvalidRequest | NotFound:
    if isinstance(refused, NoSuchArea):
        return NotFound("there is no such folder", hint=f"paths begin with one of {_AREAS}")
    return InvalidRequest(f"no file can have this path: {refused}", hint="paths look like data/run 1/input.csv")
