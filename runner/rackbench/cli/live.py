"""Live progress: a board on a terminal, plain lines elsewhere. Always on standard error."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rackbench.cli.render import console
from rackbench.progress import (
    AttemptEnded,
    DevicesBusy,
    EndpointSaid,
    Happening,
    Observer,
    PhaseBegan,
    RunBegan,
)

_REFRESHES_PER_SECOND = 4


@dataclass(slots=True)
class _State:
    """What is known of the run at this moment."""

    began: float = field(default_factory=time.monotonic)
    run_id: str = ""
    trials: int = 0
    before: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    busy: dict[str, tuple[str, float]] = field(default_factory=dict)
    endpoints: dict[str, str] = field(default_factory=dict)
    tokens: int = 0
    devices: DevicesBusy = field(default_factory=lambda: DevicesBusy(0.0, 0.0))

    @property
    def finished(self) -> int:
        return self.before + sum(self.ended.values())

    def take(self, happening: Happening) -> None:
        match happening:
            case RunBegan():
                self.run_id, self.trials = happening.run_id, happening.trials
                self.before = happening.finished
            case EndpointSaid():
                self.endpoints[happening.name] = happening.text
            case PhaseBegan():
                self.busy[happening.trial] = (happening.phase, time.monotonic())
            case AttemptEnded():
                self.busy.pop(happening.trial, None)
                usage = happening.result.usage
                self.tokens += usage.completion_tokens or 0
                if happening.final:
                    self.ended[happening.result.outcome] += 1
            case DevicesBusy():
                self.devices = happening

    def line(self) -> str:
        """One line that says where the run stands."""
        seconds = time.monotonic() - self.began
        parts = [f"{self.finished}/{self.trials} finished"]
        parts += [f"{count} {name}" for name, count in sorted(self.ended.items())]
        if (done := sum(self.ended.values())) and self.finished < self.trials:
            left = (self.trials - self.finished) * seconds / done
            parts.append(f"about {_duration(left)} left")
        if self.tokens:
            parts.append(f"{self.tokens / seconds:.0f} output tokens/s")
        if self.devices.gpu_hours:
            parts.append(f"{self.devices.gpu_hours:.2f} GPU-hours")
        if self.devices.cpu_hours:
            parts.append(f"{self.devices.cpu_hours:.2f} CPU-hours")
        return " · ".join(parts)


@contextmanager
def display() -> Iterator[Observer]:
    """The display that fits where standard error goes."""
    shown = console()
    if not shown.is_terminal:
        yield _Lines(shown)
        return
    board = _Board()
    with Live(
        console=shown,
        get_renderable=board.render,
        refresh_per_second=_REFRESHES_PER_SECOND,
        transient=True,
    ):
        yield board


class _Lines:
    """A line for each thing worth one."""

    def __init__(self, shown: Console) -> None:
        self._console = shown
        self._state = _State()

    def see(self, happening: Happening) -> None:
        self._state.take(happening)
        match happening:
            case RunBegan():
                already = f", {happening.finished} finished before" if happening.finished else ""
                self._say(
                    f"run {happening.run_id}: {happening.trials} trials{already}, "
                    f"{happening.slots} at once, in {happening.folder}"
                )
            case EndpointSaid():
                self._say(f"endpoint {happening.name}: {happening.text}")
            case AttemptEnded():
                result = happening.result
                why = f" ({result.reason}: {result.detail})" if result.reason else ""
                again = "" if happening.final else ", another attempt follows"
                self._say(
                    f"{happening.trial}: {result.outcome}{why} in {result.seconds:.1f} s{again} "
                    f"[{self._state.line()}]"
                )

    def _say(self, text: str) -> None:
        stamp = time.strftime("%H:%M:%S")
        self._console.print(Text(f"{stamp} {_printable(text)}"), soft_wrap=True)


class _Board:
    """What every slot is doing, and where the run stands."""

    def __init__(self) -> None:
        self._state = _State()

    def see(self, happening: Happening) -> None:
        self._state.take(happening)

    def render(self) -> RenderableType:
        state = self._state
        rows = Table.grid(padding=(0, 2))
        for name, text in state.endpoints.items():
            rows.add_row(Text(f"endpoint {name}", style="cyan"), Text(_printable(text)[:100]), "")
        for trial, (phase, since) in list(state.busy.items()):
            rows.add_row(Text(trial), Text(phase, style="dim"), _duration(time.monotonic() - since))
        stand = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=max(state.trials, 1), completed=state.finished, width=40)
        stand.add_row(bar, Text(state.line()))
        return Group(Text(state.run_id, style="bold"), rows, stand)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _printable(text: str) -> str:
    """Without the control characters that an agent's output may carry."""
    return "".join(c if c.isprintable() else " " for c in text.replace("\n", " · "))
