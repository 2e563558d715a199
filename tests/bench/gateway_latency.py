"""What the gateway adds to a model call, against asking the engine directly.

Run: python tests/bench/gateway_latency.py [--rounds 300] [--prompt-kilobytes 8]. Engine, gateway
and client are processes of their own, and the two ways are taken in turn, so that whatever else
the machine does hits both alike. Prints one JSON object of medians in milliseconds: whole
unstreamed calls on the scripted server, and how late each piece of a stream comes, for which the
engine stamps every piece with the machine's monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
from aiohttp import web

from rackbench.gateway import Policy, Upstream, open_gateway
from rackbench_harnesses.testing import Script, serve_script

SCRIPT = {"context_tokens": 10_000_000, "conversations": [{"turns": [{"say": "word " * 20}]}]}
PIECES = 100
PIECE_SECONDS = 0.004


async def stamped_stream(request):
    """Pieces that tell when they were sent."""
    await request.read()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number in range(PIECES):
        delta = {"content": repr(time.monotonic())}
        finish = "stop" if number == PIECES - 1 else None
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        await asyncio.sleep(PIECE_SECONDS)
    await response.write(b"data: [DONE]\n\n")
    return response


async def engine():
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/chat/completions", stamped_stream)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with serve_script(Script.model_validate(SCRIPT)) as server:
        stamping = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        await told_until_closed({"whole": server.base_url, "stream": stamping})
    await runner.cleanup()


async def gateway(urls):
    with tempfile.TemporaryDirectory() as folder:
        async with open_gateway() as running:
            with contextlib.ExitStack() as stack:
                lines = {
                    name: stack.enter_context(
                        running.line(Upstream(url), Policy(), Path(folder) / f"{name}.jsonl")
                    )
                    for name, url in urls.items()
                }
                await told_until_closed(
                    {name: [line.base_url, line.api_key] for name, line in lines.items()}
                )


async def told_until_closed(addresses):
    """Print where to reach us, and serve until the parent hangs up."""
    print(json.dumps(addresses), flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextlib.contextmanager
def process(*role):
    command = [sys.executable, __file__, *role]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        yield json.loads(child.stdout.readline())
        child.stdin.close()


async def whole_ms(client, url, key, body):
    began = time.perf_counter()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    async with client.post(f"{url}/chat/completions", data=body, headers=headers) as answer:
        await answer.read()
        assert answer.status == 200
    return (time.perf_counter() - began) * 1000


async def lags_ms(client, url, key, body):
    lags = []
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    async with client.post(f"{url}/chat/completions", data=body, headers=headers) as answer:
        async for line in answer.content:
            now = time.monotonic()
            if line.startswith(b"data: {"):
                sent = json.loads(line[6:])["choices"][0]["delta"]["content"]
                lags.append((now - float(sent)) * 1000)
    assert len(lags) == PIECES
    return lags


async def measure(rounds, prompt_kilobytes):
    text = "lorem ipsum " * (prompt_kilobytes * 1024 // 12)
    request = {"model": "scripted", "messages": [{"role": "user", "content": text}]}
    body = json.dumps(request).encode()
    stream_body = json.dumps({**request, "stream": True}).encode()
    ways = {"direct": ([], []), "via": ([], [])}
    with process("--engine") as engine_at, process("--gateway", json.dumps(engine_at)) as line_at:
        at = {"direct": {name: (url, "") for name, url in engine_at.items()}, "via": line_at}
        async with aiohttp.ClientSession() as client:
            for number in range(rounds + 10):
                for way, (whole, _) in ways.items():
                    took = await whole_ms(client, *at[way]["whole"], body)
                    if number >= 10:  # warm
                        whole.append(took)
            for _ in range(max(3, rounds // 50)):
                for way, (_, lags) in ways.items():
                    lags.extend(await lags_ms(client, *at[way]["stream"], stream_body))
    direct, via = (statistics.median(ways[way][0]) for way in ways)
    late_direct, late_via = (statistics.median(ways[way][1]) for way in ways)
    return {
        "direct_ms": round(direct, 3),
        "via_ms": round(via, 3),
        "added_ms_per_call": round(via - direct, 3),
        "added_ms_per_chunk": round(late_via - late_direct, 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--prompt-kilobytes", type=int, default=8)
    parser.add_argument("--engine", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--gateway", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.engine:
        asyncio.run(engine())
    elif asked.gateway:
        asyncio.run(gateway(asked.gateway))
    else:
        print(json.dumps(asyncio.run(measure(asked.rounds, asked.prompt_kilobytes))))


if __name__ == "__main__":
    main()
