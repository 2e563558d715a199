"""What the engine breaks is told as it happened, and put down to the engine."""

import contextlib
import json
import signal
import socket
import sys

import aiohttp
import anyio
import pytest
import yaml

from rackbench.gateway import Policy, Upstream, open_gateway
from rackbench_results.records import Call

pytestmark = pytest.mark.anyio

REQUEST = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class Desk:
    """A gateway with one line, and what came back through it."""

    def __init__(self, line, http, path):
        self.line, self.http, self.path = line, http, path
        self.status, self.headers, self.body = None, {}, b""

    async def ask(self, **fields):
        """Whether the answer had a proper end."""
        headers = {"Authorization": f"Bearer {self.line.api_key}"}
        url = f"{self.line.base_url}/chat/completions"
        try:
            async with self.http.post(url, json=REQUEST | fields, headers=headers) as answer:
                self.status, self.headers, self.body = answer.status, answer.headers, b""
                async for data in answer.content.iter_any():
                    self.body += data
        except aiohttp.ClientError:
            return False
        return True

    @property
    def error(self):
        return json.loads(self.body)["error"]

    @property
    def call(self):
        """The last record, which is on disk too."""
        written = [Call.model_validate_json(line) for line in self.path.read_text().splitlines()]
        assert written == self.line.calls
        return written[-1]


@contextlib.asynccontextmanager
async def desk(url, tmp_path, policy=None, api_key=None, **options):
    path = tmp_path / "calls.jsonl"
    async with open_gateway(**options) as gateway, aiohttp.ClientSession() as http:
        policy = policy or Policy(include_usage=False)
        with gateway.line(Upstream(url, api_key), policy, path) as line:
            yield Desk(line, http, path)


@contextlib.asynccontextmanager
async def raw_engine(*pieces):
    """An engine that sends just these bytes, one packet each, and hangs up; it keeps what it saw."""
    seen = []

    async def answer(stream):
        async with stream:
            request = b""
            while b"\r\n\r\n" not in request:
                request += await stream.receive()
            seen.append(request)
            for piece in pieces:
                await stream.send(piece)
                await anyio.sleep(0.02)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as serving,
    ):
        serving.start_soon(listener.serve, answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}/v1", seen
        serving.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def engine_process(tmp_path, **script):
    """A scripted engine in a process of its own."""
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(script))
    module = "rackbench_harnesses.testing.scripted_server"
    async with await anyio.open_process([sys.executable, "-m", module, str(path)]) as process:
        try:
            yield process, json.loads(await process.stdout.receive())["base_url"]
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def event(value):
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def chunk(finish=None, **delta):
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


async def until(reached):
    with anyio.fail_after(20):
        while not reached():  # noqa: ASYNC110  # nothing tells when
            await anyio.sleep(0.01)


async def test_an_engine_that_is_not_there(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        async with desk(url, tmp_path) as d:
            assert await d.ask(stream=True)
            assert (d.status, d.error["type"]) == (502, "endpoint_unreachable")
            assert url not in d.body.decode()
            assert url in d.call.error
            assert (d.call.status, d.line.endpoint_faults) == (502, 1)
            headers = {"Authorization": f"Bearer {d.line.api_key}"}
            async with d.http.get(f"{d.line.base_url}/models", headers=headers) as answer:
                assert answer.status == 502


async def test_an_engine_killed_before_it_answers(tmp_path):
    conversations = [{"turns": [{"hang": True}]}]
    async with (
        engine_process(tmp_path, conversations=conversations) as (process, url),
        desk(url, tmp_path) as d,
        anyio.create_task_group() as clients,
    ):
        clients.start_soon(d.ask)
        await until(lambda: d.line.upstream.busy_seconds() > 0.3)
        process.send_signal(signal.SIGKILL)
        await until(lambda: d.status)
        assert (d.status, d.error["type"]) == (502, "endpoint_unreachable")
        assert (d.call.status, d.line.endpoint_faults) == (502, 1)
        assert d.call.client_gone is False


async def test_an_engine_killed_while_it_streams(tmp_path):
    conversations = [{"turns": [{"say": "word " * 10_000}]}]
    async with (
        engine_process(tmp_path, conversations=conversations, token_seconds=0.01) as engine,
        desk(engine[1], tmp_path) as d,
        anyio.create_task_group() as clients,
    ):
        ends = []

        async def ask():
            ends.append(await d.ask(stream=True))

        clients.start_soon(ask)
        await until(lambda: d.body.count(b"data: ") > 5)
        engine[0].send_signal(signal.SIGKILL)
        await until(lambda: ends)
        assert ends == [False]
        assert b"[DONE]" not in d.body
        assert (d.call.status, d.call.client_gone) == (200, False)
        assert "broke off" in d.call.error
        assert d.call.first_token_seconds is not None
        assert d.call.response_bytes == len(d.body)
        assert (d.line.endpoint_faults, d.line.usage().steps) == (1, 0)


async def test_the_address_may_change_when_the_engine_starts_again(tmp_path):
    async with desk("http://127.0.0.1:9/v1", tmp_path) as d:
        await d.ask()
        conversations = [{"turns": [{"say": "hi"}]}]
        async with engine_process(tmp_path, conversations=conversations) as (_, url):
            d.line.upstream.base_url = url
            assert await d.ask()
            assert (d.status, d.line.usage().steps) == (200, 1)


async def test_an_error_inside_of_success(tmp_path):
    error = event({"error": {"message": "EngineCore died", "code": 500}})
    pieces = [STREAM, chunk(content="a"), error, b"data: [DONE]\n\n"]
    async with raw_engine(*pieces) as (url, _), desk(url, tmp_path) as d:
        assert await d.ask(stream=True)
        assert d.body == b"".join(pieces[1:])
        assert (d.status, d.call.error) == (200, "EngineCore died")
        assert (d.line.endpoint_faults, d.line.usage().steps) == (1, 0)


@pytest.mark.parametrize("data", [b"{broken", b"\xff\xfe", b"[1]", b"[" * 100_000])
async def test_a_malformed_event_passes_and_is_told(tmp_path, data):
    pieces = [b"data: " + data + b"\n\n", chunk(content="a", finish="stop"), b"data: [DONE]\n\n"]
    async with raw_engine(STREAM, *pieces) as (url, _), desk(url, tmp_path) as d:
        assert await d.ask(stream=True)
        assert d.body == b"".join(pieces)
        assert "no JSON object" in d.call.error
        assert (d.call.finish_reason, d.line.endpoint_faults) == ("stop", 1)


async def test_a_stream_that_just_stops(tmp_path):
    async with raw_engine(STREAM, chunk(content="a")) as (url, _), desk(url, tmp_path) as d:
        await d.ask(stream=True)
        assert d.body == chunk(content="a")
        assert "before the answer was finished" in d.call.error
        assert d.line.endpoint_faults == 1


async def test_characters_split_over_packets(tmp_path):
    whole = chunk(content="世界") + chunk(content="🎉", finish="stop") + b"data: [DONE]\n\n"
    pieces = [whole[i : i + 7] for i in range(0, len(whole), 7)]
    async with raw_engine(STREAM, *pieces) as (url, _), desk(url, tmp_path) as d:
        assert await d.ask(stream=True)
        assert d.body == whole
        assert (d.call.error, d.call.finish_reason) == (None, "stop")
        assert len(d.call.token_gaps_seconds) == 1


async def test_pieces_reach_the_client_as_they_come(tmp_path):
    conversations = [{"turns": [{"say": "a b c"}]}]
    async with (
        engine_process(tmp_path, conversations=conversations, token_seconds=3600) as (_, url),
        desk(url, tmp_path) as d,
        anyio.create_task_group() as clients,
    ):
        clients.start_soon(lambda: d.ask(stream=True))
        await until(lambda: b'"a ' in d.body)
        assert d.line.calls == []
        clients.cancel_scope.cancel()


async def test_a_silent_engine_is_given_up(tmp_path):
    conversations = [{"turns": [{"hang": True}]}]
    async with (
        engine_process(tmp_path, conversations=conversations) as (_, url),
        desk(url, tmp_path, idle_seconds=0.3) as d,
    ):
        assert await d.ask()
        assert (d.status, d.error["type"]) == (504, "endpoint_timeout")
        assert (d.call.status, d.line.endpoint_faults) == (504, 1)


async def test_an_engine_silent_within_its_stream_is_given_up(tmp_path):
    conversations = [{"turns": [{"say": "a b c"}]}]
    async with (
        engine_process(tmp_path, conversations=conversations, token_seconds=3600) as (_, url),
        desk(url, tmp_path, idle_seconds=0.3) as d,
    ):
        assert not await d.ask(stream=True)
        assert "broke off" in d.call.error
        assert d.line.endpoint_faults == 1


async def test_a_body_cut_short(tmp_path):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    async with raw_engine(head, b'{"choices": [') as (url, _), desk(url, tmp_path) as d:
        assert not await d.ask()
        assert d.body == b'{"choices": ['
        assert (d.call.status, d.line.endpoint_faults) == (200, 1)


async def test_what_is_no_http_at_all(tmp_path):
    async with raw_engine(b"hello\r\n\r\n") as (url, _), desk(url, tmp_path) as d:
        assert await d.ask()
        assert (d.status, d.line.endpoint_faults) == (502, 1)


async def test_a_compressed_answer_passes_unread(tmp_path):
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: 5\r\n\r\n"
    )
    async with raw_engine(head, b"abcde") as (url, seen), desk(url, tmp_path) as d:
        await d.ask()
        assert (d.call.response_bytes, d.call.error, d.call.prompt_tokens) == (5, None, None)
        assert b"Accept-Encoding: identity" in seen[0]


async def test_only_what_the_engine_needs_is_sent_to_it(tmp_path):
    head = b"HTTP/1.1 200 OK\r\nX-Request-Id: 7\r\nContent-Length: 2\r\n\r\n{}"
    async with raw_engine(head) as (url, seen), desk(url, tmp_path, api_key="engine-key") as d:
        d.http.headers["X-Data-Parallel-Rank"] = "3"
        await d.ask()
        assert b"Authorization: Bearer engine-key\r\n" in seen[0]
        assert d.line.api_key.encode() not in seen[0]
        assert b"parallel" not in seen[0].lower()
        assert d.headers["X-Request-Id"] == "7"


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a": ' * 50_000])
async def test_a_request_that_cannot_be_read_is_refused(tmp_path, raw):
    async with raw_engine() as (url, seen), desk(url, tmp_path) as d:
        headers = {"Authorization": f"Bearer {d.line.api_key}"}
        async with d.http.post(
            f"{d.line.base_url}/chat/completions", data=raw, headers=headers
        ) as answer:
            assert answer.status == 400
        assert (d.call.status, d.line.endpoint_faults, seen) == (400, 0, [])
