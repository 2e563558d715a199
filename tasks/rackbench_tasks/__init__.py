"""Tasks: what they are, how they are read, what identifies them."""

from rackbench_tasks.digest import folder_digest
from rackbench_tasks.model import (
    AgentPhase,
    Environment,
    Healthcheck,
    Network,
    NetworkMode,
    Solution,
    Task,
    TaskError,
    VerifierPhase,
)
from rackbench_tasks.reward import Reward, RewardError, RewardFault, read_reward
from rackbench_tasks.suite import Suite, TaskFormat, load_suite

__all__ = [
    "AgentPhase",
    "Environment",
    "Healthcheck",
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
    "load_suite",
    "read_reward",
]
