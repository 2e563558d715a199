"""What the gateway adds to a model call, against asking the scripted server directly.

Run: python tests/bench/gateway_latency.py [--rounds 300]. Server, gateway and client are processes
of their own; the two ways are taken in turn, so that whatever else the machine does hits both
alike. Prints one JSON object: medians in milliseconds.

`direct_ms` and `via_ms` are whole unstreamed calls. `added_ms_per_chunk` is what a piece of a
stream takes longer on its way: the difference of the median gaps cannot tell, since every piece is
late by the same time, so the server says when it sent the piece, and the client when it came.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
from rackbench.gateway import Policy, Upstream, open_gateway

_PIECES = 100
