"""Plug-ins by name, and what is said where a name leads nowhere."""

from __future__ import annotations

import pytest

from rackbench_harnesses import registry
from rackbench_harnesses.nop import Nop

GROUP = "rackbench.harnesses"


def test_the_built_ins_are_entry_points_too() -> None:
    assert {"loop", "nop", "oracle"} <= set(registry.names(GROUP))
    assert registry.load(GROUP, "nop") is Nop
    assert registry.load(GROUP, "rackbench_harnesses.nop:Nop") is Nop


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("orakle", r"unknown harness 'orakle'; did you mean 'oracle'\? \(installed: .*loop"),
        ("zzz", r"unknown harness 'zzz' \(installed"),
        ("no_such_module:X", "could not be loaded: No module named 'no_such_module'"),
        ("rackbench_harnesses.nop:X", "could not be loaded"),
    ],
)
def test_what_cannot_be_found_is_said(name: str, said: str) -> None:
    with pytest.raises(registry.PluginError, match=said):
        registry.load(GROUP, name)
