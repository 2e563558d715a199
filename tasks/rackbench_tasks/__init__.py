"""Tasks and suites: read, checked, digested.

No task's own code is run, and no folder of tasks is written to. Archives and repositories that a
suite names are brought into a cache; only those need the program `git` and, once, a network.
"""

from rackbench_tasks.digest import folder_digest, task_digest
from rackbench_tasks.formats import TaskFormat, installed_formats
from rackbench_tasks.model import (
    AgentPhase,
    Artifact,
    Build,
    CollectHook,
    Compose,
    Environment,
    Healthcheck,
    Need,
    Network,
    NetworkMode,
    RewardStrategy,
    Solution,
    Stage,
    Task,
    VerifierPhase,
)
from rackbench_tasks.problem import TaskError
from rackbench_tasks.reward import Reward, RewardError, RewardFault, read_reward
from rackbench_tasks.sources import Origin, Places, Source, SourceKind, machine_places, places_of
from rackbench_tasks.suite import Suite, load_sources, load_suite, pinned
from rackbench_tasks.test_results import (
    OUTPUT_PARSERS,
    TestResultsError,
    TestStatus,
    parse_output,
    read_ctrf,
    reward_of,
)

__all__ = [
    "OUTPUT_PARSERS",
    "AgentPhase",
    "Artifact",
    "Build",
    "CollectHook",
    "Compose",
    "Environment",
    "Healthcheck",
    "Need",
    "Network",
    "NetworkMode",
    "Origin",
    "Places",
    "Reward",
    "RewardError",
    "RewardFault",
    "RewardStrategy",
    "Solution",
    "Source",
    "SourceKind",
    "Stage",
    "Suite",
    "Task",
    "TaskError",
    "TaskFormat",
    "TestResultsError",
    "TestStatus",
    "VerifierPhase",
    "folder_digest",
    "installed_formats",
    "load_sources",
    "load_suite",
    "machine_places",
    "parse_output",
    "pinned",
    "places_of",
    "read_ctrf",
    "read_reward",
    "reward_of",
    "task_digest",
]
