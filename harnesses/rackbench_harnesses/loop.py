"""The reference agent: one bash tool, one linear conversation, one loop.

Read `Loop.run` first. The model is asked, its commands are run, what came back is shown to it,
until it submits or a limit ends it. Models that cannot call tools write a fenced block instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import openai
from pydantic import Field

from rackbench_harnesses.loop_shell import Observation, Shell, find_shell
from rackbench_harnesses.model_reply import ModelCallFailed, Reply, ask
from rackbench_harnesses.ports import Finish, HarnessExit, HarnessSetupError, Session
from rackbench_harnesses.settings import Settings, read_settings
from rackbench_results.records import Step, ToolCall

_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command in a fresh bash shell and see what it prints.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string", "description": "What to run."}},
                "required": ["command"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "submit",
            "description": "Say that the task is done. Nothing can be changed afterwards.",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        },
    },
]
_RULES = """\
You solve a task on a Linux machine. You work alone: nobody answers questions.
Every command runs in a fresh, non-interactive shell in the task's folder; `cd` does not last.
Start services in the background with their output sent to a file.
"""
_WITH_TOOLS = _RULES + "Use the bash tool. When the task is done and checked, call submit."
_WITH_TEXT = _RULES + (
    "Answer with one command in one fenced block:\n```bash\nls -l\n```\n"
    "When the task is done and checked, answer with a block that holds only the word submit."
)
_NUDGE_TOOLS = "That held no tool call. Call bash with a command, or submit when you are done."
_NUDGE_TEXT = "That held no fenced bash block. Write one, or one that holds only: submit"


class LoopSettings(Settings):
    """What the loop can be told."""

    mode: Literal["auto", "tools", "text"] = "auto"
    """How the model gives commands; auto: tools where the endpoint can call them."""
    tool_choice: Literal["auto", "required"] = "auto"
    """`required` makes weak models call tools at all."""
    steps: int = Field(default=100, ge=1)
    """Model calls, where the run file sets no limit."""
    command_seconds: float = Field(default=120, gt=0)
    """Limit of one command."""
    observation_bytes: int = Field(default=10_000, ge=200)
    """Of a command's output shown to the model, half from each end."""
    idle_answers: int = Field(default=3, ge=1)
    """Answers in a row without any action after which the loop gives up."""
    output_tokens: int | None = Field(default=None, ge=1)
    """Cap of one answer; None: the endpoint's."""
    temperature: float | None = None
    """None: the endpoint's policy decides."""


@dataclass(slots=True)
class _Conversation:
    """The state of one attempt: the messages so far and what they cost."""

    messages: list[dict[str, Any]]
    with_tools: bool
    steps: int = 0
    tokens: int = 0
    idle: int = 0
    actions: list[ToolCall] = field(default_factory=list)


class Loop:
    """Our own reference agent."""

    name: ClassVar[str] = "loop"
    version: ClassVar[str] = "1"
    needs_model: ClassVar[bool] = True
    needs_solution: ClassVar[bool] = False

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.settings = read_settings(LoopSettings, settings)

    async def set_up(self, session: Session) -> None:
        """Nothing is installed: the loop runs outside the sandbox."""
        if session.model is None:
            message = "loop needs a model; give its arm an endpoint"
            raise HarnessSetupError(message)

    async def run(self, session: Session) -> HarnessExit:
        """Ask, act, show, until the model submits or a limit ends it."""
        assert session.model is not None
        talk = self._begin(session)
        shell = Shell(
            session.sandbox,
            interpreter=await find_shell(session.sandbox),
            command_seconds=self.settings.command_seconds,
            observation_bytes=self.settings.observation_bytes,
        )
        async with openai.AsyncOpenAI(
            base_url=session.model.base_url,
            api_key=session.model.api_key,
            max_retries=0,
            timeout=None,  # the attempt has its own deadline
        ) as client:
            while True:
                if end := self._limit_reached(session, talk):
                    return end
                began = datetime.now(UTC)
                try:
                    reply = await ask(client, self._request(session, talk))
                except ModelCallFailed as failed:
                    return HarnessExit(failed.finish, str(failed))
                end = await self._act(reply, talk, shell)
                session.recorder.step(_step(talk, reply, began))
                if end:
                    return end

    def _begin(self, session: Session) -> _Conversation:
        assert session.model is not None
        with_tools = {"tools": True, "text": False}.get(self.settings.mode, session.model.tools)
        return _Conversation(
            messages=[
                {"role": "system", "content": _WITH_TOOLS if with_tools else _WITH_TEXT},
                {"role": "user", "content": session.instruction},
            ],
            with_tools=with_tools,
        )

    def _request(self, session: Session, talk: _Conversation) -> dict[str, Any]:
        assert session.model is not None
        request: dict[str, Any] = {"model": session.model.model, "messages": talk.messages}
        if talk.with_tools:
            request |= {"tools": _TOOLS, "tool_choice": self.settings.tool_choice}
        if cap := self.settings.output_tokens or session.model.output_tokens:
            request["max_tokens"] = cap
        if self.settings.temperature is not None:
            request["temperature"] = self.settings.temperature
        return request

    def _limit_reached(self, session: Session, talk: _Conversation) -> HarnessExit | None:
        steps = session.limits.steps or self.settings.steps
        if talk.steps >= steps:
            return HarnessExit(Finish.STEP_LIMIT, f"{steps} steps")
        tokens = session.limits.tokens
        if tokens is not None and talk.tokens >= tokens:
            return HarnessExit(Finish.TOKEN_LIMIT, f"{talk.tokens} of {tokens} tokens")
        return None

    async def _act(self, reply: Reply, talk: _Conversation, shell: Shell) -> HarnessExit | None:
        """Run what the model asked for and add both sides to the conversation."""
        talk.steps += 1
        talk.tokens += reply.tokens
        talk.actions = []
        talk.messages.append(reply.as_message())
        if reply.refusal:
            return HarnessExit(Finish.REFUSAL, reply.refusal)
        calls = reply.tool_calls if talk.with_tools else _fenced(reply.text)
        talk.idle = 0 if calls else talk.idle + 1
        if talk.idle >= self.settings.idle_answers:
            finish = Finish.TRUNCATED if reply.finish_reason == "length" else Finish.ERROR
            return HarnessExit(finish, f"{talk.idle} answers in a row held no command")
        if not calls:
            nudge = _NUDGE_TOOLS if talk.with_tools else _NUDGE_TEXT
            talk.messages.append({"role": "user", "content": nudge})
        submitted = False
        for call in calls:
            submitted = submitted or _is_submission(call)
            seen = await _answer(call, shell, talk.steps)
            talk.actions.append(
                call.model_copy(update={"observation": seen.text, "extra": seen.facts})
            )
            talk.messages.append(
                {"role": "tool", "tool_call_id": call.call_id, "content": seen.text}
                if talk.with_tools
                else {"role": "user", "content": seen.text}
            )
        return HarnessExit(Finish.SUBMITTED) if submitted else None


def _is_submission(call: ToolCall) -> bool:
    command = str((call.arguments or {}).get("command", "")).strip()
    return call.name == "submit" or (call.name == "bash" and command == "submit")


async def _answer(call: ToolCall, shell: Shell, step: int) -> Observation:
    """What the model gets to see for one call; a malformed one is explained, not fatal."""
    if _is_submission(call):
        return Observation("Submitted.")
    if call.arguments is None:
        return Observation(f"The arguments are not a JSON object: {call.raw_arguments[:500]}")
    if call.name != "bash":
        return Observation(f"There is no tool {call.name!r}; there are bash and submit.")
    command = call.arguments.get("command")
    if not isinstance(command, str) or not command.strip():
        return Observation('bash takes {"command": "what to run"}, a string that is not empty.')
    return await shell.run(command, name=f"step-{step}")


def _fenced(text: str) -> list[ToolCall]:
    """The last fenced block of an answer, as a call; none where there is none."""
    parts = text.split("```")
    if len(parts) < 3:
        return []
    block = parts[-2] if len(parts) % 2 else parts[-1]
    language, newline, command = block.partition("\n")
    if not newline or language.strip() not in ("", "bash", "sh", "shell"):
        return []
    arguments: dict[str, object] = {"command": command.strip()}
    return [
        ToolCall(
            call_id="block", name="bash", arguments=arguments, raw_arguments=json.dumps(arguments)
        )
    ]


def _step(talk: _Conversation, reply: Reply, began: datetime) -> Step:
    return Step(
        number=talk.steps,
        at=began,
        message=reply.text,
        reasoning=reply.reasoning or None,
        tool_calls=tuple(talk.actions),
        model=reply.model,
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        completion_tokens=reply.completion_tokens,
    )
