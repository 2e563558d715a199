"""What several stages make of a whole: when to stop, and one reward out of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rackbench.verdict import AgentEnd
from rackbench.verification import Verified
from rackbench_tasks import Reward, RewardStrategy, Stage, Task


@dataclass(frozen=True, slots=True)
class Done:
    """A stage that was worked on and judged."""

    stage: Stage
    end: AgentEnd
    verified: Verified


def is_enough(stage: Stage, reward: Reward) -> bool:
    """Whether a stage's reward reaches its minimum, so that the next one is begun."""
    return all(
        reward.all.get(key, float("-inf")) >= least for key, least in stage.min_reward.items()
    )


def whole_reward(task: Task, done: Sequence[Done]) -> Reward:
    """The reward of a task: a stage that was not reached counts 0.

    The official runner leaves such a stage out of the mean, and takes the last one reached as
    final; so a task given up early can look better there than one worked on to its end.
    """
    if len(task.stages) == 1:
        return done[0].verified.reward
    values = [each.verified.reward.value for each in done]
    values += [0.0] * (len(task.stages) - len(done))
    is_final = task.reward_strategy is RewardStrategy.FINAL
    value = values[-1] if is_final else fmean(values)
    return Reward(value, {"reward": value}, f"{task.reward_strategy} of {len(values)} stages")
