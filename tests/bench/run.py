"""`make bench`: our speed against Docker's floor and against Harbor, in one run on one machine.

Every figure that is a target of the project is printed beside its target; none is asserted, since
time depends on the machine. Results also go to a JSON file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import anyio
import harbor
from measured import Measured, measure
from rich.console import Console
from rich.table import Table
from steps import measure_steps
from trivial import COUNT, write_tasks

HERE = Path(__file__).parent
RACKBENCH = Path(sys.executable).with_name("rackbench")
AT_ONCE = (1, 2, 4)
_HELP_ROUNDS = 15
_RUN_FILE = "name: bench\ntasks: {tasks}\narms: [oracle]\nslots: {at_once}\n"


def ours(tasks: Path, at_once: int, work: Path) -> Measured:
    """One whole `rackbench run`, start-up included."""
    file = work / "bench.yaml"
    file.write_text(_RUN_FILE.format(tasks=tasks, at_once=at_once))
    measured = measure([str(RACKBENCH), "run", str(file), "--json"], cwd=work)
    summary = json.loads(measured.output[measured.output.index("\n{") :])
    solved = [arm["solved"] for arm in summary["arms"]]
    assert solved == [COUNT], f"not every trial was solved: {measured.output[-2000:]}"
    return measured


def floor(at_once: int, work: Path, *kind: str) -> Measured:
    """The same work by hand on Docker's API."""
    return measure([sys.executable, str(HERE / "floor.py"), str(at_once), *kind], cwd=work)


def seconds_of_help(work: Path) -> float:
    """Median wall seconds of `rackbench --help`."""
    walls = [
        measure([str(RACKBENCH), "--help"], cwd=work).wall_seconds for _ in range(_HELP_ROUNDS)
    ]
    return statistics.median(walls)


def gateway_latency() -> dict[str, float]:
    """What the gateway adds to a call and to a chunk."""
    asked = subprocess.run(
        [sys.executable, str(HERE / "gateway_latency.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(asked.stdout.splitlines()[-1])
    return found


def trials(work: Path, *, with_harbor: bool, rounds: int) -> dict[str, dict[int, list[Measured]]]:
    """All programs in turn, round after round, so that drift hits all alike."""
    sealed = write_tasks(work / "sealed", network="no-network")
    found: dict[str, dict[int, list[Measured]]] = {"rackbench": {}, "floor": {}}
    ours(sealed, 1, work)  # builds the image once, as every later run finds it
    rival, public = None, work / "public"
    if with_harbor:
        rival = harbor.install(cache_folder())
        write_tasks(public, network="public")
        found |= {"harbor": {}, "harbor with init": {}}
    for _ in range(rounds):
        for at_once in AT_ONCE:
            found["rackbench"].setdefault(at_once, []).append(ours(sealed, at_once, work))
            found["floor"].setdefault(at_once, []).append(floor(at_once, work))
    if rival:
        for at_once in AT_ONCE:
            for name, overlay in (("harbor", False), ("harbor with init", True)):
                found[name].setdefault(at_once, []).append(
                    harbor.run(rival, public, at_once=at_once, overlay=overlay, work=work)
                )
    return found


def separate_trials(
    work: Path, *, with_harbor: bool, rounds: int
) -> dict[str, dict[int, list[Measured]]]:
    """The same tasks with a verifier in a container of its own, one at a time."""
    sealed = write_tasks(work / "sealed-separate", network="no-network", separate=True)
    found: dict[str, dict[int, list[Measured]]] = {"rackbench": {1: []}, "floor": {1: []}}
    ours(sealed, 1, work)
    floor(1, work, "separate")
    for _ in range(rounds):
        found["rackbench"][1].append(ours(sealed, 1, work))
        found["floor"][1].append(floor(1, work, "separate"))
    if with_harbor:
        rival = harbor.install(cache_folder())
        public = write_tasks(work / "public-separate", network="public", separate=True)
        found["harbor"] = {1: [harbor.run(rival, public, at_once=1, overlay=False, work=work)]}
    return found


def cache_folder() -> Path:
    base = os.environ.get("RACKBENCH_CACHE") or Path.home() / ".cache" / "rackbench"
    folder = Path(base) / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def median_wall(runs: list[Measured]) -> float:
    return statistics.median(run.wall_seconds for run in runs)


def median_cpu(runs: list[Measured]) -> float:
    return statistics.median(run.cpu_seconds for run in runs)


def show(figures: dict[str, dict[int, list[Measured]]], console: Console, *, title: str) -> None:
    table = Table(title=f"{COUNT} trivial trials, {title}", title_justify="left", box=None)
    for column in ("program", "at once", "wall s", "CPU s/trial", "peak MB", "over floor s/trial"):
        table.add_column(column, justify="left" if column == "program" else "right")
    for name, by_slots in figures.items():
        for at_once, runs in by_slots.items():
            over = (median_wall(runs) - median_wall(figures["floor"][at_once])) / COUNT
            table.add_row(
                name,
                str(at_once),
                f"{median_wall(runs):.2f}",
                f"{median_cpu(runs) / COUNT:.3f}",
                f"{max(run.peak_memory_bytes for run in runs) / 1e6:.0f}",
                f"{over:+.3f}",
            )
    console.print(table)


def separate_targets(
    figures: dict[str, dict[int, list[Measured]]],
) -> list[tuple[str, float, str, bool]]:
    """What is promised of a verifier in a container of its own."""
    wall = (median_wall(figures["rackbench"][1]) - median_wall(figures["floor"][1])) / COUNT
    rows = [("separate verifier over the floor per trial", wall, "≤ 0.8 s", wall <= 0.8)]
    if "harbor" in figures:
        times = median_wall(figures["harbor"][1]) / median_wall(figures["rackbench"][1])
        rows.append(("times faster than harbor, separate", times, "≥ 8", times >= 8))
    return rows


def targets(
    figures: dict[str, dict[int, list[Measured]]],
    steps: dict[str, float],
    help_seconds: float,
    gateway: dict[str, float],
) -> list[tuple[str, float, str, bool]]:
    """What the project promises: name, figure, promise, kept."""
    our, low = figures["rackbench"], figures["floor"]
    rows = []
    for at_once in AT_ONCE:
        wall = (median_wall(our[at_once]) - median_wall(low[at_once])) / COUNT
        rows.append(
            (f"wall over the floor per trial, {at_once} at once", wall, "≤ 0.5 s", wall <= 0.5)
        )
    cpu = (median_cpu(our[1]) - median_cpu(low[1])) / COUNT
    rows.append(("client CPU over the floor per trial", cpu, "≤ 0.3 s", cpu <= 0.3))
    for name, promise in (("harbor", 8.0), ("harbor with init", 2.0)):
        if name in figures:
            times = median_wall(figures[name][1]) / median_wall(our[1])
            rows.append(
                (f"times faster than {name}, 1 at once", times, f"≥ {promise:g}", times >= promise)
            )
    ratio = steps["ratio"]
    rows.append(("tool step against the engine's exec", ratio, "≤ 1.5", ratio <= 1.5))
    rows.append(("rackbench --help", help_seconds, "< 0.25 s", help_seconds < 0.25))
    added = gateway["added_ms_per_call"]
    rows.append(("gateway adds per call, ms", added, "< 2", added < 2))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-harbor", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("runs/bench.json"))
    asked = parser.parse_args()
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="rackbench-bench-") as name:
        work = Path(name)
        try:
            figures = trials(work, with_harbor=not asked.no_harbor, rounds=asked.rounds)
        except harbor.HarborMissingError as missing:
            console.print(f"without Harbor: {missing}")
            figures = trials(work, with_harbor=False, rounds=asked.rounds)
        apart = separate_trials(work, with_harbor="harbor" in figures, rounds=asked.rounds)
        steps = anyio.run(measure_steps, "rackbench/base:1")
        help_seconds = seconds_of_help(work)
    gateway = gateway_latency()
    show(figures, console, title="verifier in the agent's container")
    show(apart, console, title="verifier in a container of its own")
    rows = targets(figures, steps, help_seconds, gateway) + separate_targets(apart)
    table = Table(title="\ntargets", title_justify="left", box=None)
    for column in ("what", "measured", "promised", ""):
        table.add_column(column)
    for what, figure, promise, kept in rows:
        table.add_row(what, f"{figure:.3f}", promise, "kept" if kept else "MISSED")
    console.print(table)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(
        json.dumps(
            {
                "trials": {
                    program: {
                        n: [asdict(run) | {"output": ""} for run in runs] for n, runs in by.items()
                    }
                    for program, by in figures.items()
                },
                "separate_trials": {
                    program: {
                        n: [asdict(run) | {"output": ""} for run in runs] for n, runs in by.items()
                    }
                    for program, by in apart.items()
                },
                "steps": steps,
                "help_seconds": help_seconds,
                "gateway": gateway,
                "targets": [
                    dict(zip(("what", "figure", "promise", "kept"), r, strict=True)) for r in rows
                ],
            },
            indent=1,
        )
    )
    console.print(f"\nload average {os.getloadavg()[0]:.1f}; figures in {asked.output}")


if __name__ == "__main__":
    main()
