"""Tasks and suites: read, checked, digested. Pure: nothing is started, nothing is written."""

from rackbench_tasks.digest import folder_digest, task_digest
from rackbench_tasks.formats import TaskFormat, installed_formats
from rackbench_tasks.model import (
    AgentPhase,
    Artifact,
    Environment,
    Healthcheck,
    Need,
    Network,
    NetworkMode,
    Solution,
    Task,
    VerifierPhase,
)
from rackbench_tasks.problem import TaskError
from rackbench_tasks.reward import Reward, RewardError, RewardFault, read_reward
from rackbench_tasks.suite import Suite, load_suite

__all__ = [
    "AgentPhase",
    "Artifact",
    "Environment",
    "Healthcheck",
    "Need",
    "Network",
    "NetworkMode",
    "Reward",
    "RewardError",
    "RewardFault",
    "Solution",
    "Suite",
    "Task",
    "TaskError",
    "TaskFormat",
    "VerifierPhase",
    "folder_digest",
    "installed_formats",
    "load_suite",
    "read_reward",
    "task_digest",
]
