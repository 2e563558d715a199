"""Tasks and suites: read, checked, digested. Pure: nothing is started, nothing is written."""

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
from rackbench_tasks.suite import Suite, load_suite
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
    "Reward",
    "RewardError",
    "RewardFault",
    "RewardStrategy",
    "Solution",
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
    "load_suite",
    "parse_output",
    "read_ctrf",
    "read_reward",
    "reward_of",
    "task_digest",
]
