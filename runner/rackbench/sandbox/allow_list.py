"""Which hosts a task lets its sandbox reach."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

import psutil

from rackbench.errors import UsageError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_CHARACTERS = 253
_WITH_PORT = re.compile(r"(?P<host>\[.+\]|[^:]+):(?P<port>\d{1,5})")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list: a name, a suffix or a network, for one port or for all."""

    name: str | None = None
    suffix: str | None = None
    """With its leading dot."""
    network: Network | None = None
    port: int | None = None

    def admits_name(self, name: str) -> bool:
        """Whether a name in normal form is meant; a suffix means the names below it alone."""
        return name == self.name or bool(self.suffix and name.endswith(self.suffix))

    def admits_address(self, address: Address, *, is_public: bool) -> bool:
        """Whether an address is meant; one that is not public only by an entry made for such."""
        network = self.network
        if network is None or network.version != address.version or address not in network:
            return False
        return is_public or network.prefixlen == network.max_prefixlen or not network.is_global


@dataclass(frozen=True, slots=True)
class AllowList:
    """Names, suffixes, addresses and networks that may be reached."""

    texts: tuple[str, ...]
    """As written."""
    entries: tuple[Entry, ...]
    own: frozenset[Address] = field(default_factory=frozenset)
    """Addresses of this host, which count as not public."""

    def admits_name(self, name: str, port: int) -> bool:
        """Whether a name may be asked for; what it leads to is another question."""
        return any(entry.admits_name(name) for entry in self._at(port))

    def admits_address(self, address: Address, port: int) -> bool:
        """Whether an address is on the list itself."""
        address = plain(address)
        is_public = self.is_public(address)
        return any(entry.admits_address(address, is_public=is_public) for entry in self._at(port))

    def admits_answer(self, address: Address, port: int) -> bool:
        """Whether an allowed name may lead to an address: to a public one, or to a listed one."""
        return self.is_public(plain(address)) or self.admits_address(address, port)

    def is_public(self, address: Address) -> bool:
        """Whether an address is one of the world's, neither this host's nor this site's."""
        if address in self.own or address.is_multicast or not address.is_global:
            return False
        return address.version == 4 or address in _GLOBAL_UNICAST

    def _at(self, port: int) -> Iterable[Entry]:
        return (entry for entry in self.entries if entry.port in (None, port))


def parse_allow_list(texts: Iterable[str]) -> AllowList:
    """Read host names, `*.suffix`, addresses and CIDRs, each with `:port` or without.

    Raises UsageError that names the entry.
    """
    texts = tuple(texts)
    return AllowList(texts, tuple(map(_entry, texts)), _own_addresses())


def normal_name(text: str) -> str | None:
    """A host name in lower case, without the dot at its end; None where it is no name."""
    name = text.lower().removesuffix(".")
    return name if len(name) <= _NAME_CHARACTERS and _NAME.fullmatch(name) else None


def address_of(text: str) -> Address | None:
    """The address that a text spells, in brackets or without; None where it spells none."""
    try:
        return ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour or address


def _entry(text: str) -> Entry:
    host, port = text.strip(), None
    with_port = _WITH_PORT.fullmatch(host)
    if with_port:
        host, port = with_port["host"], int(with_port["port"])
    try:
        return Entry(network=ip_network(host.strip("[]"), strict=False), port=port)
    except ValueError:
        pass
    try:
        name = normal_name(host.removeprefix("*.").encode("idna").decode())
    except UnicodeError:
        name = None
    if name is None or name.replace(".", "").isdecimal():
        raise UsageError(
            f"{text!r} on a list of allowed hosts is not a host name, *.suffix, address or CIDR, "
            "with or without :port"
        )
    if host.startswith("*."):
        return Entry(suffix=f".{name}", port=port)
    return Entry(name=name, port=port)


def _own_addresses() -> frozenset[Address]:
    found = (
        address_of(item.address.partition("%")[0])
        for items in psutil.net_if_addrs().values()
        for item in items
    )
    return frozenset(address for address in found if address)
