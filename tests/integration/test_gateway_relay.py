"""What passes through the gateway is measured and not changed."""

import contextlib
import io
import json

import aiohttp
import anyio
import openai
import pytest

from rackbench.gateway import Policy, Upstream, open_gateway
from rackbench_harnesses.testing import Script, serve_script
from rackbench_results.records import Call

pytestmark = pytest.mark.anyio

USER = {"role": "user", "content": "hello there"}
SAID = {"role": "assistant", "content": "x"}
LS = {"name": "bash", "arguments": {"command": "ls -l /a/rather/long/path/of/a/folder"}}
TURN = {"reasoning": "let me see", "say": "Grüße, 世界 🎉. ", "calls": [LS, {"name": "submit"}]}
AS_IT_IS = Policy(include_usage=False)


def script(*turns, **fields):
    return Script.model_validate({"conversations": [{"turns": turns or [TURN]}], **fields})


class Rig:
    """A scripted engine, a gateway in front of it, and a client."""

    def __init__(self, engine, gateway, http, folder):
        self.engine, self.gateway, self.http, self.folder = engine, gateway, http, folder
        self.upstream = Upstream(engine.base_url, None)
        self.calls_path = folder / "calls.jsonl"

    def line(self, policy=AS_IT_IS, path=None, **budget):
        return self.gateway.line(self.upstream, policy, path or self.calls_path, **budget)

    async def post(self, line, raw, key=None, path="/chat/completions"):
        headers = {"Authorization": f"Bearer {key or line.api_key}"}
        url = line.base_url + path
        async with self.http.post(url, data=raw, headers=headers) as answer:
            return answer.status, answer.headers, await answer.read()

    async def direct(self, raw):
        url = f"{self.engine.base_url}/chat/completions"
        async with self.http.post(url, data=raw) as answer:
            return answer.status, answer.headers, await answer.read()

    def written(self):
        return [Call.model_validate_json(line) for line in self.calls_path.read_text().splitlines()]


@pytest.fixture
def rig(tmp_path):
    @contextlib.asynccontextmanager
    async def rig(given=None):
        async with (
            serve_script(given or script()) as engine,
            open_gateway() as gateway,
            aiohttp.ClientSession() as http,
        ):
            yield Rig(engine, gateway, http, tmp_path)

    return rig


def request(**fields):
    body = {"model": "scripted", "messages": [USER], **fields}
    return json.dumps(body, indent=1, ensure_ascii=False).encode()


async def until(reached):
    with anyio.fail_after(20):
        while not reached():  # noqa: ASYNC110  # nothing tells when
            await anyio.sleep(0.01)


@pytest.mark.parametrize(
    "raw",
    [
        request(stream=True, stream_options={"include_usage": True}),
        request(stream=True),
        request(),
        request(model="nope"),
        request(messages="none"),
    ],
    ids=["stream-usage", "stream", "whole", "unknown-model", "refused"],
)
async def test_answers_are_the_engines_bytes(rig, raw):
    async with rig() as r:
        with r.line() as line:
            through = await r.post(line, raw)
        direct = await r.direct(raw)
        assert through[2] == direct[2]
        assert through[0] == direct[0]
        assert through[1]["Content-Type"] == direct[1]["Content-Type"]


async def test_requests_arrive_as_they_were_sent(rig):
    async with rig() as r:
        with r.line(Policy()) as line:
            await r.post(line, request(a={"ü": [1, None]}))
        assert r.engine.requests == [json.loads(request(a={"ü": [1, None]}))]
        (call,) = r.written()
        assert (call.request_bytes, call.policy) == (len(request(a={"ü": [1, None]})), ())


async def test_a_streamed_call_is_measured(rig):
    async with rig(script(TURN, token_seconds=0.002)) as r:
        with r.line() as line:
            raw = request(stream=True, stream_options={"include_usage": True})
            _, _, body = await r.post(line, raw)
            (call,) = line.calls
        assert r.written() == [call]
        events = [json.loads(event[6:]) for event in body.split(b"\n\n")[:-2]]
        told = events[-1]["usage"]
        assert (call.prompt_tokens, call.completion_tokens) == (
            told["prompt_tokens"],
            told["completion_tokens"],
        )
        assert (call.cached_tokens, call.reasoning_tokens) == (0, 3)
        assert (call.finish_reason, call.tool_calls) == ("tool_calls", 2)
        assert (call.number, call.status, call.streamed) == (1, 200, True)
        assert (call.error, call.client_gone) == (None, False)
        assert call.response_bytes == len(body)
        assert (
            0
            < call.sent_seconds
            < call.first_byte_seconds
            <= call.first_token_seconds
            < call.last_token_seconds
            <= call.finished_seconds
        )
        assert len(call.token_gaps_seconds) == call.completion_tokens - 1
        assert sum(call.token_gaps_seconds) == pytest.approx(
            call.last_token_seconds - call.first_token_seconds, abs=1e-3
        )


async def test_an_unstreamed_call_is_measured(rig):
    async with rig() as r:
        with r.line() as line:
            _, _, body = await r.post(line, request())
            (call,) = line.calls
        assert call.prompt_tokens == json.loads(body)["usage"]["prompt_tokens"]
        assert (call.finish_reason, call.tool_calls, call.streamed) == ("tool_calls", 2, False)
        assert call.first_token_seconds is None
        assert call.token_gaps_seconds == ()


async def test_usage_sums_the_attempt_up(rig):
    async with rig(script({"say": "one two"}, {"status": 500}, {"say": "three"})) as r:
        with r.line(Policy()) as line:
            for turns in range(3):
                await r.post(line, request(messages=[USER, *[SAID, USER] * turns], stream=True))
            usage = line.usage()
        first, failed, last = r.written()
        assert (usage.calls, usage.steps, usage.failed_calls) == (3, 2, 1)
        assert usage.prompt_tokens == first.prompt_tokens + last.prompt_tokens
        assert usage.cached_tokens == last.cached_tokens > 0
        assert usage.completion_tokens == 3
        assert usage.max_context_tokens == last.context_tokens
        assert usage.ttft_seconds_median > 0
        assert usage.itl_seconds_median is not None
        assert (failed.status, failed.error) == (500, "HTTP 500: scripted HTTP 500")
        assert line.endpoint_faults == 1


async def test_a_refusal_of_the_engine_is_no_fault_of_it(rig):
    async with rig(script(context_tokens=60)) as r:
        with r.line() as line:
            status, _, _ = await r.post(line, request(messages=[USER] * 20))
            assert (status, line.endpoint_faults) == (400, 0)
            assert "maximum context length" in line.calls[0].error
            assert line.usage().steps == 0


async def test_the_policy_is_enforced_and_told(rig):
    policy = Policy(model="scripted", force={"temperature": 0.6}, output_tokens=4)
    async with rig() as r:
        with r.line(policy) as line:
            await r.post(line, request(model="haiku", temperature=0, stream=True))
            (call,) = line.calls
        (seen,) = r.engine.requests
        assert (seen["model"], seen["temperature"], seen["max_tokens"]) == ("scripted", 0.6, 4)
        assert seen["stream_options"] == {"include_usage": True}
        assert (call.model_requested, call.model_sent) == ("haiku", "scripted")
        assert (call.finish_reason, call.completion_tokens) == ("length", 4)
        assert len(call.policy) == 4


async def test_an_openai_client_works_as_with_the_engine(rig):
    async with rig() as r:
        with r.line(Policy()) as line:
            async with openai.AsyncOpenAI(
                base_url=line.base_url, api_key=line.api_key, max_retries=0
            ) as model:
                assert [m.id async for m in model.models.list()] == ["scripted"]
                stream = await model.chat.completions.create(
                    model="scripted", messages=[USER], stream=True
                )
                text = ""
                async for chunk in stream:
                    for choice in chunk.choices:
                        text += choice.delta.content or ""
                # The record stands before the client knows that its answer is whole.
                assert line.usage().steps == 1
        assert text == TURN["say"]


async def test_long_prompts_pass_whole(rig):
    text = "wörd " * 1_000_000
    async with rig(script(context_tokens=10_000_000)) as r:
        with r.line() as line:
            raw = request(messages=[{"role": "user", "content": text}])
            status, _, body = await r.post(line, io.BytesIO(raw))
        assert (status, r.engine.requests[0]["messages"][0]["content"]) == (200, text)
        assert r.written()[0].prompt_tokens == json.loads(body)["usage"]["prompt_tokens"]


async def test_the_key_is_demanded_either_way(rig):
    async with rig() as r:
        with r.line() as line:
            status, _, body = await r.post(line, request(), key="wrong")
            assert (status, json.loads(body)["error"]["type"]) == (401, "invalid_api_key")
            url = f"{line.base_url}/chat/completions"
            async with r.http.post(url, data=request()) as answer:
                assert answer.status == 401
            async with r.http.post(
                url, data=request(), headers={"x-api-key": line.api_key}
            ) as answer:
                assert answer.status == 200
            async with r.http.get(f"{line.base_url}/models") as answer:
                assert answer.status == 401
        assert len(r.written()) == 1


async def test_other_paths_are_named_and_no_calls(rig):
    async with rig() as r:
        with r.line() as line:
            status, _, body = await r.post(line, b"{}", path="/embeddings")
            assert status == 404
            assert "POST /v1/chat/completions" in json.loads(body)["error"]["message"]
            headers = {"Authorization": f"Bearer {line.api_key}"}
            async with r.http.get(f"{line.base_url}/chat/completions", headers=headers) as answer:
                assert answer.status == 404
            assert (line.probes, line.usage().calls) == (2, 0)
        async with r.http.get(f"{r.gateway.root_url}/v1/models") as answer:
            assert answer.status == 404
        assert r.written() == []


async def test_a_closed_line_is_gone(rig):
    async with rig() as r:
        with r.line() as line:
            pass
        status, _, body = await r.post(line, request())
        assert (status, json.loads(body)["error"]["type"]) == (410, "attempt_over")
        assert r.engine.requests == []


async def test_closing_cancels_what_is_in_flight_and_writes_it_down(rig):
    async with rig(script({"hang": True})) as r, anyio.create_task_group() as clients:

        async def ask(line):
            with pytest.raises(aiohttp.ClientError):
                await r.post(line, request())

        with r.line() as line:
            clients.start_soon(ask, line)
            clients.start_soon(ask, line)
            await until(lambda: len(r.engine.requests) == 2)
        assert [call.number for call in r.written()] == [1, 2]
        assert all("attempt was over" in call.error for call in line.calls)
        assert (line.usage().failed_calls, line.endpoint_faults) == (2, 0)
        await until(lambda: r.engine.abandoned == 2)


async def test_a_client_that_leaves_takes_the_engines_work_with_it(rig):
    async with rig(script({"say": "word " * 10_000}, token_seconds=0.01)) as r:
        with r.line() as line:
            headers = {"Authorization": f"Bearer {line.api_key}"}
            async with r.http.post(
                f"{line.base_url}/chat/completions", data=request(stream=True), headers=headers
            ) as answer:
                await answer.content.readany()
                answer.close()
            await until(lambda: r.engine.abandoned == 1)
            await until(lambda: line.calls)
            (call,) = line.calls
            assert (call.client_gone, call.status, call.error) == (True, 200, None)
            assert call.first_token_seconds is not None
            assert (line.usage().steps, line.endpoint_faults) == (0, 0)


async def test_a_client_that_leaves_before_the_answer_is_noted_too(rig):
    async with rig(script({"hang": True})) as r:
        with r.line() as line:
            with anyio.move_on_after(0.2):
                await r.post(line, request())
            await until(lambda: line.calls)
            assert (line.calls[0].client_gone, line.calls[0].status) == (True, None)
            await until(lambda: r.engine.abandoned == 1)


async def test_a_step_budget_ends_the_attempt_without_retries(rig):
    async with rig() as r:
        with r.line(max_steps=2) as line:
            async with openai.AsyncOpenAI(
                base_url=line.base_url, api_key=line.api_key, max_retries=5
            ) as model:
                for _ in range(2):
                    await model.chat.completions.create(model="scripted", messages=[USER])
                with pytest.raises(openai.RateLimitError) as caught:
                    await model.chat.completions.create(model="scripted", messages=[USER])
            assert caught.value.body["type"] == "budget_exhausted"
            assert "2 steps" in caught.value.body["message"]
            assert "token" not in caught.value.body["message"]
            usage = line.usage()
            assert (usage.calls, usage.steps, line.endpoint_faults) == (3, 2, 0)
        assert [call.status for call in r.written()] == [200, 200, 429]
        assert len(r.engine.requests) == 2


async def test_calls_at_once_share_the_step_budget(rig):
    async with rig(script({"say": "a b c"}, token_seconds=0.05)) as r:
        with r.line(max_steps=2) as line:
            seen = []

            async def ask():
                seen.append((await r.post(line, request()))[0])

            async with anyio.create_task_group() as clients:
                for _ in range(5):
                    clients.start_soon(ask)
            assert sorted(seen) == [200, 200, 429, 429, 429]


async def test_a_token_budget_ends_the_attempt(rig):
    async with rig() as r:
        with r.line(max_tokens=40) as line:
            seen = []
            while 429 not in seen:
                status, _, body = await r.post(line, request())
                seen.append(status)
            assert "tokens" in json.loads(body)["error"]["message"]
            usage = line.usage()
            assert usage.prompt_tokens + usage.completion_tokens >= 40
            assert usage.steps == len(seen) - 1 > 0


async def test_two_attempts_at_once_are_kept_apart(rig):
    async with rig(script({"say": "a b c"}, token_seconds=0.005)) as r:
        paths = [r.folder / "one.jsonl", r.folder / "two.jsonl"]
        with r.line(path=paths[0]) as one, r.line(path=paths[1], max_steps=3) as two:
            assert one.base_url != two.base_url
            assert (await r.post(one, request(), key=two.api_key))[0] == 401
            async with anyio.create_task_group() as clients:
                for number in range(10):
                    clients.start_soon(r.post, (one, two)[number % 2], request(n=number))
            assert (one.usage().steps, two.usage().steps) == (5, 3)
        written = [
            [Call.model_validate_json(line) for line in path.read_text().splitlines()]
            for path in paths
        ]
        assert [len(calls) for calls in written] == [5, 5]
        assert sorted(call.number for call in written[0]) == [1, 2, 3, 4, 5]


async def test_the_engine_is_busy_while_any_call_is_in_flight(rig):
    async with rig(script({"say": "a b"}, token_seconds=0.2)) as r:
        with r.line() as line:
            assert r.upstream.busy_seconds() == 0
            async with anyio.create_task_group() as clients:
                for _ in range(4):
                    clients.start_soon(r.post, line, request())
            busy = r.upstream.busy_seconds()
            assert max(call.finished_seconds for call in line.calls) * 0.5 < busy
            assert busy < sum(call.finished_seconds for call in line.calls)
            assert r.upstream.busy_seconds() == busy


async def test_a_file_that_cannot_be_written_is_told_at_the_end(rig):
    async with rig() as r:
        line_of_full_disk = r.line(path="/dev/full")
        line = line_of_full_disk.__enter__()
        assert (await r.post(line, request()))[0] == 200
        assert line.usage().steps == 1
        with pytest.raises(OSError, match="No space left"):
            line_of_full_disk.__exit__(None, None, None)
