"""Which names and addresses a list admits."""

from __future__ import annotations

import socket

import psutil
import pytest

from rackbench.errors import UsageError
from rackbench.sandbox.allow_list import address_of, normal_name, parse_allow_list


@pytest.mark.parametrize(
    ("entry", "name", "admitted"),
    [
        ("example.com", "example.com", True),
        ("Example.COM.", "example.com", True),
        ("example.com", "www.example.com", False),
        ("example.com", "example.com.evil.net", False),
        ("example.com", "notexample.com", False),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "notexample.com", False),
        ("bücher.example", "xn--bcher-kva.example", True),
        ("example.com:443", "example.com", True),
        ("example.com:80", "example.com", False),
    ],
)
def test_names(entry: str, name: str, admitted: bool) -> None:
    assert parse_allow_list([entry]).admits_name(name, 443) is admitted


@pytest.mark.parametrize(
    ("entry", "address", "admitted"),
    [
        ("8.8.8.8", "8.8.8.8", True),
        ("8.8.8.8", "8.8.4.4", False),
        ("8.8.8.8:53", "8.8.8.8", False),
        ("8.8.0.0/16", "8.8.4.4", True),
        ("0.0.0.0/0", "8.8.8.8", True),
        ("0.0.0.0/0", "127.0.0.1", False),
        ("0.0.0.0/0", "169.254.169.254", False),
        ("0.0.0.0/0", "10.0.0.1", False),
        ("10.0.0.0/8", "10.0.0.1", True),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("10.0.0.0/8", "64:ff9b::a00:1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("::/0", "::1", False),
        ("::/0", "fe80::1", False),
        ("::/0", "fd00::1", False),
        ("::/0", "2606:4700::1", True),
        ("::/0", "::ffff:127.0.0.1", False),
        ("2606:4700::/32", "2606:4700::1", True),
        ("[2606:4700::1]:443", "2606:4700::1", True),
        ("[2606:4700::1]:80", "2606:4700::1", False),
        ("example.com", "8.8.8.8", False),
    ],
)
def test_addresses(entry: str, address: str, admitted: bool) -> None:
    found = address_of(address)
    assert found
    assert parse_allow_list([entry]).admits_address(found, 443) is admitted


@pytest.mark.parametrize(
    ("address", "admitted"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1", True),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("198.18.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("fe80::1", False),
        ("fec0::1", False),
        ("fd00:ec2::254", False),
        ("ff02::1", False),
    ],
)
def test_where_an_allowed_name_may_lead(address: str, admitted: bool) -> None:
    found = address_of(address)
    assert found
    assert parse_allow_list(["example.com"]).admits_answer(found, 443) is admitted


def test_an_allowed_name_may_lead_inside_where_that_is_listed() -> None:
    found = address_of("10.1.2.3")
    assert found
    assert parse_allow_list(["example.com", "10.1.0.0/16"]).admits_answer(found, 443)


def test_this_hosts_addresses_are_not_public() -> None:
    allowed = parse_allow_list(["0.0.0.0/0", "::/0"])
    for items in psutil.net_if_addrs().values():
        for item in items:
            if item.family in (socket.AF_INET, socket.AF_INET6):
                found = address_of(item.address.partition("%")[0])
                assert found
                assert not allowed.admits_address(found, 443)


@pytest.mark.parametrize(
    "entry",
    ["", "https://example.com", "exa mple.com", "*", "*.", "a.*.com", "10.0.0.0/33", "1.2.3"],
)
def test_entries_that_make_no_sense_are_named(entry: str) -> None:
    with pytest.raises(UsageError, match="not a host name"):
        parse_allow_list(["example.com", entry])


@pytest.mark.parametrize("text", ["", ".", "a..b", "a b", "a/b", "-a", "a" * 64, "a." * 130 + "b"])
def test_what_is_no_name(text: str) -> None:
    assert normal_name(text) is None
