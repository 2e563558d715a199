"""What an engine's log says: how far its start has come, and why it ended."""

from __future__ import annotations

import re
from pathlib import Path

_TAIL_BYTES = 200_000

# Newest match wins; in the order of a start.
_STAGES = (
    (re.compile(r"Starting vLLM|vLLM API server version"), "reading the configuration"),
    (re.compile(r"Initializing a V1 LLM engine|EngineCore"), "starting the engine core"),
    (re.compile(r"Starting to load model|Loading safetensors|Loading weights"), "loading weights"),
    (re.compile(r"Loading weights took|Model loading took"), "weights loaded"),
    (re.compile(r"torch\.compile|Compiling|Dynamo bytecode"), "compiling"),
    (re.compile(r"GPU KV cache size|CPU KV cache size|# (?:GPU|CPU) blocks"), "KV cache allocated"),
    (re.compile(r"Capturing CUDA graph|Graph capturing"), "capturing graphs"),
    (re.compile(r"[Ww]arming up"), "warming up"),
    (re.compile(r"Started server process|Starting vLLM API server|Waiting for application"), "up"),
)

# The log's own error, and what to do about it.
_ADVICE = (
    (r"Address already in use", "the port is in use; choose another or leave `port` out"),
    (
        r"the estimated maximum model length is (\d+)",
        "the KV cache is too small for this context; set --max-model-len={0} or give it more memory",
    ),
    (
        r"Available memory on node .* is less than requested memory for kv",
        "the KV cache is larger than the free memory; lower --kv-cache-memory-bytes",
    ),
    (r"out of memory|OutOfMemoryError", "out of memory; lower --gpu-memory-utilization or context"),
    (
        r"is greater than the derived max_model_len \((?:\w+=)?([\d.]+)",
        "the model's own context is {0}; set --max-model-len to at most that",
    ),
    (
        r"Repo id must be in the form|Invalid repository ID or local directory",
        "the model's folder does not exist or holds no config.json",
    ),
    (
        r"Cannot find an appropriate cached snapshot",
        "this model is not on the machine; name the folder of its weights",
    ),
    (r"invalid tool call parser: (\S+)", "unknown tool parser {0}; see `vllm serve --help=all`"),
    (
        r"--enable-auto-tool-choice requires --tool-call-parser",
        "add --tool-call-parser for this model",
    ),
    (r"unrecognized arguments: (.+)", "this engine does not know the argument {0}"),
    (r"SafetensorError", "the weights are damaged or incomplete; copy them again"),
    (r"must be divisible by tensor parallel size", "choose a tensor parallel size that divides it"),
    (r"No package metadata was found for vllm", "the engine is half installed; install it again"),
)
_ERROR_LINE = re.compile(r"(\w*(?:Error|Exception)\b: .+|error: .+)")
_NO_CAUSE = ("Engine core initialization failed", "EngineCore encountered an issue")


def stage_of(log: Path) -> str:
    """How far a start has come, in words."""
    text = _tail(log)
    found = "starting"
    for pattern, stage in _STAGES:
        if pattern.search(text):
            found = stage
    return found


def explain(log: Path, exit_code: int | None) -> str:
    """Why an engine ended: the log's reason, what to do, and where to read on.

    An exit nobody asked for is a crash whatever its code: a killed engine core ends with 0.
    """
    text = _tail(log)
    errors = [line for line in _ERROR_LINE.findall(text) if not any(x in line for x in _NO_CAUSE)]
    said = errors[-1].strip() if errors else "its log names no error"
    advice = ""
    for pattern, hint in _ADVICE:
        if match := re.search(pattern, text):
            advice = "; " + hint.format(*match.groups())
            break
    return f"the engine ended with exit code {exit_code}: {said[:400]}{advice} (log: {log})"


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
