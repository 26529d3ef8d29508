"""`python -m clusterra_edge_agent.kubernetes.egress render FILE | schema`: where the jobs of a site may connect to.

`render` prints the NetworkPolicy `slurmd-egress` of a site's egress file; `schema` prints the JSON Schema of such
files. The policy only adds to the policy `slurmd` of k8s/edge, by which workers reach slurmctld, each other and DNS.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from clusterra_edge_agent.kubernetes.manifests import NAME_LABEL, NAMESPACE

POLICY = "slurmd-egress"
MAX_BYTES = 1 << 20
"""The most bytes of an egress file that are read."""

METADATA: tuple[IPv4Network | IPv6Network, ...] = (
    IPv4Network("169.254.0.0/16"),
    IPv6Network("fd00:ec2::254/128"),
    IPv6Network("fe80::/10"),
)
"""Always closed: link-local networks, and the metadata service, which hands out the machine's credentials."""
EVERYTHING = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))


class EgressInvalid(Exception):
    """The egress file cannot be read or is wrong; the text says what and where."""


def _network(value: object) -> object:
    """Reads CIDR notation alone: from a number such as 10, ipaddress makes the address 0.0.0.10."""
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if not isinstance(value, str) or "/" not in value:
        raise ValueError('a network must be in CIDR notation, such as "10.20.0.0/16" or "203.0.113.7/32"')
    return ip_network(value)


type Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network, json_schema_input_type=str)]
type Port = Annotated[int, Field(ge=1, le=65535)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class PortRange(_Strict):
    """One port, or the ports from `port` to `end_port`."""

    port: Port
    end_port: Port | None = None
    protocol: Literal["TCP", "UDP"] = "TCP"

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.end_port is not None and self.end_port < self.port:
            raise ValueError(f"end_port {self.end_port} is less than port {self.port}")
        return self


class Destination(_Strict):
    """A network that jobs may connect to, on some ports or on all."""

    cidr: Network
    ports: Annotated[tuple[PortRange, ...], Field(max_length=50)] = ()
    """Empty: all ports of all protocols."""

    @model_validator(mode="after")
    def _no_metadata(self) -> Self:
        if any(_within(self.cidr, closed) for closed in METADATA):
            raise ValueError(
                f"{self.cidr} is link-local: the metadata service there hands out the machine's credentials. Remove it"
            )
        return self


class Egress(_Strict):
    """The egress file of a site."""

    egress: Literal["cluster-only", "listed", "open"] = "cluster-only"
    """Where jobs may connect to besides slurmctld, DNS and other workers: nowhere; to the networks of `to`; to every
    address, except those of `except`."""
    to: Annotated[tuple[Destination, ...], Field(max_length=200)] = ()
    """With `listed`: the networks."""
    closed: Annotated[tuple[Network, ...], Field(alias="except", max_length=200)] = ()
    """With `open` and `listed`: networks that stay closed, such as the site's own."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.egress == "listed" and not self.to:
            raise ValueError("with `egress: listed`, `to` must have a network at least; for none, use `cluster-only`")
        if self.egress != "listed" and self.to:
            raise ValueError(f"`to` has no meaning with `egress: {self.egress}`: remove it, or use `listed`")
        if self.egress == "cluster-only" and self.closed:
            raise ValueError("`except` has no meaning with `egress: cluster-only`: remove it, or use `open`")
        for destination in self.to:
            if covering := next((each for each in self.closed if _within(destination.cidr, each)), None):
                raise ValueError(f"{destination.cidr} of `to` is within {covering} of `except`: remove one of the two")
        return self


def read(path: Path) -> Egress:
    """Reads an egress file. Raises EgressInvalid."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise EgressInvalid(f"{path}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise EgressInvalid(f"{path}: an egress file has at most {MAX_BYTES} bytes")
    try:
        given = yaml.safe_load(content)
        return Egress.model_validate({} if given is None else given)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise EgressInvalid(f"{path} is not valid YAML: {error}") from error
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, each['loc'])) or 'file'}: {each['msg']}" for each in error.errors()]
        raise EgressInvalid("\n".join((f"{path} is no egress file:", *lines))) from error


def policy(egress: Egress) -> dict[str, Any]:
    """Returns the NetworkPolicy (networking.k8s.io/v1). With `cluster-only` it allows nothing more."""
    match egress.egress:
        case "cluster-only":
            destinations: Iterable[Destination] = ()
        case "listed":
            destinations = egress.to
        case "open":
            destinations = (Destination(cidr=network) for network in EVERYTHING)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY, "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": {NAME_LABEL: "slurmd"}},
            "policyTypes": ["Egress"],
            "egress": [_rule(destination, egress.closed) for destination in destinations],
        },
    }


def _rule(destination: Destination, closed: tuple[IPv4Network | IPv6Network, ...]) -> dict[str, Any]:
    """One rule. Kubernetes accepts in `except` only networks within the block."""
    excepted = sorted({str(each) for each in (*METADATA, *closed) if _within(each, destination.cidr)})
    block = {"cidr": str(destination.cidr), **({"except": excepted} if excepted else {})}
    ports = [
        {"protocol": each.protocol, "port": each.port, **({"endPort": each.end_port} if each.end_port else {})}
        for each in destination.ports
    ]
    return {"to": [{"ipBlock": block}], **({"ports": ports} if ports else {})}


def _within(inner: IPv4Network | IPv6Network, outer: IPv4Network | IPv6Network) -> bool:
    """Whether all of `inner` is in `outer`."""
    return inner.network_address in outer and inner.broadcast_address in outer


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of egress files."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Egress.model_json_schema(mode="validation", by_alias=True),
    }


def main() -> int:
    """Runs the command. Exit code 2: the file is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m clusterra_edge_agent.kubernetes.egress",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("render", help="print the NetworkPolicy").add_argument("file", type=Path)
    actions.add_parser("schema", help="print the JSON Schema of egress files")
    arguments = parser.parse_args()
    if arguments.action == "schema":
        sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
        return 0
    try:
        rendered = policy(read(arguments.file))
    except EgressInvalid as error:
        parser.error(str(error))
    sys.stdout.write(
        f"# Rendered from {arguments.file.name}. Do not edit; run `{parser.prog} render`.\n"
        + yaml.safe_dump(rendered, sort_keys=False)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
