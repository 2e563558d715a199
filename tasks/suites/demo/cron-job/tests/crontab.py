"""Reads a file of /etc/cron.d as Debian's cron does, and says when its jobs run."""

import re
from dataclasses import dataclass
from datetime import date

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
WEEKDAYS = "sun mon tue wed thu fri sat".split()
SETTING = re.compile(r"""^\s*(['"]?)([A-Za-z_]\w*)\1\s*=\s*(.*?)\s*$""")
NICKNAME = re.compile(r"^\s*@")


class CrontabError(ValueError):
    """Cron would refuse the file, or it cannot be what was asked for."""


@dataclass(frozen=True)
class Job:
    minutes: frozenset
    hours: frozenset
    days: frozenset
    months: frozenset
    weekdays: frozenset
    any_day: bool
    any_weekday: bool
    user: str
    command: str
    settings: dict

    def runs_on(self, day: date) -> bool:
        """Whether the job runs on a day; both kinds of days given means either of them."""
        month_day = day.day in self.days
        weekday = (day.isoweekday() % 7) in self.weekdays
        both = self.any_day or self.any_weekday
        return day.month in self.months and (
            (month_day and weekday) if both else (month_day or weekday)
        )

    def shell_command(self) -> tuple[str, str]:
        """The command and its standard input: a percent sign ends a line unless it is escaped."""
        parts = re.split(r"(?<!\\)%", self.command)
        parts = [part.replace("\\%", "%") for part in parts]
        return parts[0], "\n".join(parts[1:])


def read(text: str) -> list[Job]:
    """All jobs of a file."""
    if not text.endswith("\n"):
        raise CrontabError("the last line does not end with a newline: cron ignores the file")
    settings, jobs = {}, []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if setting := SETTING.match(line):
            settings[setting[2]] = unquoted(setting[3])
            continue
        if NICKNAME.match(line):
            raise CrontabError(f"not a time of the day: {line}")
        parts = line.split(None, 6)
        if len(parts) < 7:
            raise CrontabError(f"not a job with a user: {line}")
        minutes, hours, days, months, weekdays, user, command = parts
        jobs.append(
            Job(
                field(minutes, 0, 59),
                field(hours, 0, 23),
                field(days, 1, 31),
                field(months, 1, 12, MONTHS),
                frozenset(day % 7 for day in field(weekdays, 0, 7, WEEKDAYS)),
                days.startswith("*"),
                weekdays.startswith("*"),
                user,
                command,
                dict(settings),
            )
        )
    return jobs


def unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[0] == text[-1] else text


def field(text: str, low: int, high: int, names: list[str] | None = None) -> frozenset:
    """The values of one field: lists of ranges with steps, `*`, or names."""

    def value(word: str) -> int:
        if names and word.lower() in names:
            return names.index(word.lower()) + (1 if names is MONTHS else 0)
        if not word.isdecimal() or not low <= int(word) <= high:
            raise CrontabError(f"not a value between {low} and {high}: {word!r}")
        return int(word)

    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isdecimal() and int(step) > 0):
            raise CrontabError(f"not a step: {part!r}")
        first, dash, last = span.partition("-")
        if span == "*":
            start, stop = low, high
        elif dash:
            start, stop = value(first), value(last)
        else:
            start = stop = value(first)
            if slash:
                stop = high
        if start > stop:
            raise CrontabError(f"a range that ends before it begins: {part!r}")
        found |= set(range(start, stop + 1, int(step) if slash else 1))
    return frozenset(found)
