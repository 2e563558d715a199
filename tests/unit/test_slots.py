"""Admission: places, memory, and nobody overtaken."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from rackbench.slots import Slots

pytestmark = pytest.mark.anyio


async def test_no_more_at_once_than_places_and_memory() -> None:
    slots, now, most = Slots(3, 100), [0, 0], [0, 0]

    async def work(memory: int) -> None:
        async with slots.take(memory):
            now[0], now[1] = now[0] + 1, now[1] + memory
            most[0], most[1] = max(most[0], now[0]), max(most[1], now[1])
            await anyio.sleep(0.001)
            now[0], now[1] = now[0] - 1, now[1] - memory

    async with anyio.create_task_group() as group:
        for memory in [10, 60, 50, 10, 100, 10, 40] * 5:
            group.start_soon(work, memory)
    assert most[0] <= 3
    assert most[1] <= 100
    assert now == [0, 0]


async def test_a_large_one_is_not_overtaken() -> None:
    slots, order = Slots(2, 100), []

    async def work(name: str, memory: int) -> None:
        async with slots.take(memory):
            order.append(name)
            await anyio.sleep(0.005)

    async with anyio.create_task_group() as group:
        for name, memory in (("first", 60), ("large", 100), ("small", 10)):
            group.start_soon(work, name, memory)
            await anyio.lowlevel.checkpoint()
    assert order == ["first", "large", "small"]


async def test_a_cancelled_one_gives_its_place_back() -> None:
    slots = Slots(1, 10)
    async with slots.take(10):
        with anyio.move_on_after(0.01):
            async with slots.take(10):
                pytest.fail("there was no place")
    with anyio.fail_after(1):
        async with slots.take(10):
            pass
