"""The scripted server answers, and fails, as the engine does."""

import contextlib
import json
import signal
import sys

import aiohttp
import anyio
import openai
import pytest

from rackbench_harnesses.testing import Script, serve_script

pytestmark = pytest.mark.anyio

PROGRAM = [sys.executable, "-m", "rackbench_harnesses.testing.scripted_server"]
LS = {"name": "bash", "arguments": {"command": "ls -l /a/rather/long/path/of/a/folder"}}
USER = {"role": "user", "content": "hello there"}
SAID = {"role": "assistant", "content": "x"}


def script(*turns, **fields):
    return Script.model_validate({"conversations": [{"turns": turns}], **fields})


@pytest.fixture
async def http():
    async with aiohttp.ClientSession() as session:
        yield session


def client(server):
    return openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0)


async def ask(http, server, *messages, **fields):
    body = {"model": "scripted", "messages": list(messages) or [USER], **fields}
    async with http.post(f"{server.base_url}/chat/completions", json=body) as answer:
        return answer.status, await answer.json()


async def test_turns_follow_the_answers_already_given_and_the_last_repeats(http):
    async with serve_script(script({"say": "one"}, {"say": "two"})) as server:
        said = [
            (await ask(http, server, USER, *[SAID, USER] * n))[1]["choices"][0]["message"][
                "content"
            ]
            for n in (0, 1, 2, 0)
        ]
        assert said == ["one", "two", "two", "one"]
        assert len(server.requests) == 4


async def test_the_first_conversation_that_fits_is_used(http):
    given = Script.model_validate(
        {
            "conversations": [
                {"when": "fix", "turns": [{"say": "fixing"}]},
                {"when": "hello", "turns": [{"say": "hi"}]},
            ]
        }
    )
    async with serve_script(given) as server:
        _, body = await ask(http, server)
        assert body["choices"][0]["message"]["content"] == "hi"
        parts = {"role": "user", "content": [{"type": "text", "text": "fix it"}]}
        _, body = await ask(http, server, parts, USER)
        assert body["choices"][0]["message"]["content"] == "fixing"
        status, body = await ask(http, server, {"role": "user", "content": "else"})
        assert (status, body["error"]["code"]) == (400, 400)


async def test_streamed_and_whole_answers_say_the_same():
    turn = {"reasoning": "let me see", "say": "I list. ", "calls": [LS, {"name": "submit"}]}
    async with serve_script(script(turn)) as server, client(server) as model:
        whole = await model.chat.completions.create(model="scripted", messages=[USER])
        stream = await model.chat.completions.create(
            model="scripted", messages=[USER], stream=True, stream_options={"include_usage": True}
        )
        text, reasoning, calls, finish, usage = "", "", {}, None, None
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                finish = choice.finish_reason or finish
                text += choice.delta.content or ""
                reasoning += (choice.delta.model_extra or {}).get("reasoning_content", "")
                for part in choice.delta.tool_calls or []:
                    calls[part.index] = calls.get(part.index, "") + part.function.arguments
    message = whole.choices[0].message
    assert (text, reasoning) == (message.content, message.model_extra["reasoning_content"])
    assert finish == whole.choices[0].finish_reason == "tool_calls"
    assert list(calls.values()) == [call.function.arguments for call in message.tool_calls]
    assert json.loads(calls[0]) == LS["arguments"]
    assert usage == whole.usage
    assert usage.completion_tokens_details.reasoning_tokens == 3


async def test_raw_arguments_are_sent_as_they_stand(http):
    broken = {"call": {"name": "bash", "raw_arguments": '{"command": broken'}}
    async with serve_script(script(broken)) as server:
        _, body = await ask(http, server)
    (call,) = body["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"command": broken'


async def test_the_cache_grows_with_the_conversation(http):
    async with serve_script(script({"say": "x"})) as server:
        seen = [(await ask(http, server, USER, *[SAID, USER] * n))[1]["usage"] for n in range(4)]
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in seen]
    assert cached[0] == 0
    assert cached == sorted(set(cached))
    assert all(a < usage["prompt_tokens"] for a, usage in zip(cached, seen, strict=True))


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_output_stops_at_its_limit(http, name):
    async with serve_script(script({"say": "one two three four"})) as server:
        _, body = await ask(http, server, **{name: 2})
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 2
    assert body["choices"][0]["message"]["content"].split() == ["one", "two"]


async def test_refusals_have_the_engines_shape(http):
    async with serve_script(script({"say": "x"}, context_tokens=50)) as server:
        status, body = await ask(http, server, {"role": "user", "content": "x" * 500})
        assert (status, body["error"]["type"]) == (400, "BadRequestError")
        assert "maximum context length is 50 tokens" in body["error"]["message"]
        assert body["error"]["param"] == "input_tokens"
        status, body = await ask(http, server, max_tokens=51)
        assert "cannot be greater than max_model_len=50" in body["error"]["message"]
        status, body = await ask(http, server, model="nope")
        assert (status, body["error"]["type"]) == (404, "NotFoundError")
        async with http.post(f"{server.base_url}/chat/completions", data=b"{") as answer:
            assert answer.status == 400


async def test_a_fault_with_times_passes_and_the_turn_is_then_passed_over(http):
    turns = [{"status": 503, "times": 2}, {"say": "first"}, {"status": 500, "times": 1, "say": "b"}]
    async with serve_script(script(*turns)) as server:
        assert [(await ask(http, server))[0] for _ in range(3)] == [503, 503, 200]
        assert (await ask(http, server, USER, SAID, USER))[0] == 500
        status, body = await ask(http, server, USER, SAID, USER)
        assert (status, body["choices"][0]["message"]["content"]) == (200, "b")


@pytest.mark.parametrize(("cut", "events"), [(0, 0), (2, 3)])
async def test_a_cut_drops_the_connection_after_its_pieces(http, cut, events):
    body = {"model": "scripted", "messages": [USER], "stream": True}
    async with serve_script(script({"say": "a b c d", "cut": cut})) as server:
        url, seen = f"{server.base_url}/chat/completions", b""
        with contextlib.suppress(aiohttp.ClientError):
            async with http.post(url, json=body) as answer:
                async for data in answer.content.iter_any():
                    seen += data
                pytest.fail("the answer had a proper end")
        with pytest.raises(aiohttp.ClientError):
            await ask(http, server)
    assert seen.count(b"data: ") == events  # the role comes first
    assert b"[DONE]" not in seen


async def test_an_error_in_a_stream_comes_inside_of_success(http):
    async with serve_script(script({"say": "a", "error_in_stream": "engine died"})) as server:
        body = {"model": "scripted", "messages": [USER], "stream": True}
        async with http.post(f"{server.base_url}/chat/completions", json=body) as answer:
            assert answer.status == 200
            lines = [line for line in (await answer.read()).split(b"\n\n") if line]
        assert json.loads(lines[-2].removeprefix(b"data: "))["error"]["message"] == "engine died"
        assert lines[-1] == b"data: [DONE]"
        status, whole = await ask(http, server)
        assert (status, whole["error"]["message"]) == (500, "engine died")


async def test_a_client_that_leaves_is_noticed(http):
    async with serve_script(script({"hang": True})) as server:
        with anyio.move_on_after(0.2):
            await ask(http, server)
        with anyio.fail_after(10):
            while not server.abandoned:  # noqa: ASYNC110  # nothing tells when
                await anyio.sleep(0.01)


async def test_who_serves_is_told(http):
    async with serve_script(script({"say": "x"}, model="kimi", context_tokens=77)) as server:
        async with http.get(f"{server.base_url}/models") as answer:
            (row,) = (await answer.json())["data"]
        assert (row["id"], row["max_model_len"]) == ("kimi", 77)
        root = server.base_url.removesuffix("/v1")
        async with http.get(f"{root}/health") as answer:
            assert (answer.status, await answer.read()) == (200, b"")
        async with http.get(f"{root}/version") as answer:
            assert "version" in await answer.json()


async def test_it_runs_as_a_program_that_ends_on_sigterm(http, tmp_path):
    path = tmp_path / "script.yaml"
    path.write_text("conversations: [{turns: [{say: hi}]}]")
    async with await anyio.open_process([*PROGRAM, str(path)]) as program:
        try:
            line = await program.stdout.receive()
            async with http.get(f"{json.loads(line)['base_url']}/models") as answer:
                assert answer.status == 200
            program.send_signal(signal.SIGTERM)
            assert await program.wait() == 0
            assert [said async for said in program.stderr] == []
        finally:
            with contextlib.suppress(ProcessLookupError):
                program.kill()


async def test_the_program_refuses_a_bad_script(tmp_path):
    path = tmp_path / "script.yaml"
    path.write_text("conversations: []")
    done = await anyio.run_process([*PROGRAM, str(path)], check=False)
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
