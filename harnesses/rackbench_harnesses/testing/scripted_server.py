"""The scripted server as a program: `python -m rackbench_harnesses.testing.scripted_server`.

It prints its address as one line of JSON and serves until SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

import anyio

from rackbench_harnesses.testing.script import ScriptError, load_script
from rackbench_harnesses.testing.server import serve_script


async def _serve(path: Path, host: str, port: int) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with serve_script(load_script(path), host=host, port=port) as server:
            print(json.dumps({"base_url": server.base_url}), flush=True)  # noqa: T201
            async for _ in signals:
                return


def main() -> int:
    """Exit codes: 0 ended by a signal, 2 a script or an address that cannot be used."""
    parser = argparse.ArgumentParser(prog="scripted_server", description="Answer from a script.")
    parser.add_argument("script", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free one")
    asked = parser.parse_args()
    try:
        anyio.run(_serve, asked.script, asked.host, asked.port)
    except (ScriptError, OSError) as error:
        print(f"{asked.script}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
