"""Set-up for real: the scripts, the engine's folder, the conversion, the commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path

import docker
import pytest

from rackbench.engine_install import Installation, default_home, find, install
from rackbench.engine_install.stage import stage

NOWHERE = "tcp://127.0.0.1:1"


def script(name: str, *, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    with resources.as_file(resources.files("rackbench.setup") / name) as path:
        return subprocess.run(
            ["bash", path],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **(env or {})},
        )


def rackbench(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rackbench", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )


def whole(home: Path) -> Installation:
    """A folder that looks like an installation, without two gigabytes in it."""
    installed = Installation(
        python=home / "environment/bin/python",
        vllm=home / "environment/bin/vllm",
        model=home / "models/small",
        template=home / "models/small.jinja",
        version="0.0.1+cpu",
    )
    files = (installed.python, installed.vllm, installed.model / "config.json", installed.template)
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return installed


def write_record(home: Path, installed: Installation, **changes: object) -> None:
    record = {
        "schema_version": 1,
        "python": str(installed.python),
        "vllm": str(installed.vllm),
        "model": str(installed.model),
        "template": str(installed.template),
        "version": installed.version,
        "recipe": "by hand",
        **changes,
    }
    (home / "installation.json").write_text(json.dumps(record))


@pytest.mark.docker
def test_docker_is_set_up_once_and_found_ever_after(docker_api: docker.APIClient) -> None:
    before = docker_api.info()["ID"]
    for _ in range(2):
        done = script("docker.sh")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "docker: a daemon answers at unix:///var/run/docker.sock\n"
    assert docker_api.info()["ID"] == before


def test_a_daemon_elsewhere_is_not_ours_to_start() -> None:
    for host in (NOWHERE, "unix:///nowhere/docker.sock"):
        done = script("docker.sh", env={"DOCKER_HOST": host})
        assert done.returncode == 1
        assert done.stdout == ""
        assert f"no daemon answers at DOCKER_HOST={host}" in done.stderr


@pytest.mark.docker
def test_the_base_image_is_left_alone(docker_api: docker.APIClient, base_image: str) -> None:
    before = docker_api.inspect_image(base_image)["Id"]
    done = script("base_image.sh")
    assert (done.returncode, done.stdout) == (0, f"base image: {base_image} is there\n")
    assert docker_api.inspect_image(base_image)["Id"] == before


@pytest.mark.docker
def test_the_base_image_says_what_it_is(docker_api: docker.APIClient, base_image: str) -> None:
    config = docker_api.inspect_image(base_image)["Config"]
    assert config["Labels"] == {"rackbench.base": "1"}
    assert config["WorkingDir"] == "/app"
    assert "LANG=C.UTF-8" in config["Env"]


def test_the_base_image_needs_a_daemon() -> None:
    done = script("base_image.sh", env={"DOCKER_HOST": NOWHERE})
    assert done.returncode == 1
    assert "rackbench doctor --fix docker" in done.stderr


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert find(tmp_path) is None
    assert find(tmp_path / "none") is None


def test_files_without_a_record_are_not_an_installation(tmp_path: Path) -> None:
    whole(tmp_path)
    assert find(tmp_path) is None


def test_what_the_record_names_is_found(tmp_path: Path) -> None:
    installed = whole(tmp_path)
    write_record(tmp_path, installed)
    assert find(tmp_path) == installed
    assert replace(installed, version="other") != installed


@pytest.mark.parametrize("lost", ["python", "vllm", "template"])
def test_a_record_whose_files_are_gone_does_not_count(tmp_path: Path, lost: str) -> None:
    installed = whole(tmp_path)
    write_record(tmp_path, installed)
    getattr(installed, lost).unlink()
    assert find(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema_version": 1}', "\udcff"])
def test_a_torn_record_does_not_count(tmp_path: Path, text: str) -> None:
    whole(tmp_path)
    (tmp_path / "installation.json").write_bytes(text.encode(errors="surrogateescape"))
    assert find(tmp_path) is None


def test_a_record_of_another_schema_does_not_count(tmp_path: Path) -> None:
    write_record(tmp_path, whole(tmp_path), schema_version=2)
    assert find(tmp_path) is None


def test_the_home_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("RACKBENCH_CACHE", raising=False)
    assert default_home() == tmp_path / "xdg/rackbench/engine"
    monkeypatch.setenv("RACKBENCH_CACHE", str(tmp_path / "own"))
    assert default_home() == tmp_path / "own/engine"


def test_an_interrupted_stage_is_made_again_from_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "part"

    def interrupted() -> None:
        with stage(folder, "recipe") as missing:
            assert missing
            (folder / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with stage(folder, "recipe") as missing:
        assert missing
        assert list(folder.iterdir()) == []
        (folder / "whole").touch()
    with stage(folder, "recipe") as missing:
        assert not missing
        assert (folder / "whole").exists()
    with stage(folder, "another recipe") as missing:
        assert missing
        assert list(folder.iterdir()) == []


@pytest.mark.engine
def test_a_second_installation_has_nothing_to_do() -> None:
    said: list[str] = []
    first = find(default_home())
    assert first is not None
    assert install(default_home(), report=said.append) == first
    assert said == []


def test_an_installation_without_its_program_uv_says_so(tmp_path: Path) -> None:
    # Through this link the interpreter has no uv beside it, and the path has none either.
    python = tmp_path / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    code = (
        "from pathlib import Path; from rackbench.engine_install import install; "
        f"install(Path({str(tmp_path / 'home')!r}), report=print)"
    )
    asked = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert asked.returncode != 0
    assert "there is no uv beside this Python" in asked.stderr
    assert find(tmp_path / "home") is None


CONVERSION = """
import json, sys
from pathlib import Path
import gguf, numpy, torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

folder, script = Path(sys.argv[1]), sys.argv[2]
random = numpy.random.default_rng(7)
width, heads, kv_heads, inner = 32, 4, 2, 48
alphabet = sorted(gguf_byte for gguf_byte in "abc123") + ["\\u0120"]
tokens = ["<|endoftext|>", "<|im_start|>", *alphabet, "ab", "abc", "<tool>"]
types = [3, 3, *[1] * (len(tokens) - 3), 4]

def matrix(*shape):
    return random.standard_normal(shape, dtype=numpy.float32)

def interleaved(weights, count):  # as llama.cpp's converter does it
    rows = weights.shape[0]
    return weights.reshape(count, 2, rows // count // 2, -1).swapaxes(1, 2).reshape(weights.shape)

kept = {
    "model.embed_tokens.weight": matrix(len(tokens), width),
    "model.norm.weight": matrix(width),
    "model.layers.0.self_attn.q_proj.weight": matrix(width, width),
    "model.layers.0.self_attn.k_proj.weight": matrix(width // 2, width),
    "model.layers.0.mlp.down_proj.weight": matrix(width, inner),
}
stored = dict(zip(
    ("token_embd", "output_norm", "blk.0.attn_q", "blk.0.attn_k", "blk.0.ffn_down"),
    kept.values(),
))
stored["blk.0.attn_q"] = interleaved(stored["blk.0.attn_q"], heads)
stored["blk.0.attn_k"] = interleaved(stored["blk.0.attn_k"], kv_heads)

writer = gguf.GGUFWriter(folder / "tiny.gguf", "llama")
writer.add_context_length(128)
writer.add_embedding_length(width)
writer.add_block_count(1)
writer.add_feed_forward_length(inner)
writer.add_head_count(heads)
writer.add_head_count_kv(kv_heads)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_freq_base(10000.0)
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("smollm")
writer.add_token_list(tokens)
writer.add_token_types(types)
writer.add_token_merges(["a b", "ab c"])
writer.add_bos_token_id(1)
writer.add_eos_token_id(0)
writer.add_pad_token_id(0)
for name, weights in stored.items():
    writer.add_tensor(name + ".weight", weights)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

import runpy
sys.argv = [script, str(folder / "tiny.gguf"), str(folder / "out")]
runpy.run_path(script, run_name="__main__")

read = load_file(folder / "out/model.safetensors")
tokenizer = Tokenizer.from_file(str(folder / "out/tokenizer.json"))
print(json.dumps({
    "names": sorted(read) == sorted(kept),
    "equal": [torch.equal(read[n], torch.from_numpy(w).to(torch.bfloat16)) for n, w in kept.items()],
    "config": json.loads((folder / "out/config.json").read_text()),
    "tokens": tokenizer.encode("abc 12<|im_start|>ab<tool>").tokens,
    "back": tokenizer.decode(tokenizer.encode("abc 12").ids),
}))
"""


@pytest.mark.engine
def test_weights_and_tokenizer_come_through_the_conversion(tmp_path: Path) -> None:
    installed = find(default_home())
    assert installed
    with resources.as_file(resources.files("rackbench.engine_install") / "gguf_to_hf.py") as path:
        done = subprocess.run(
            [installed.python, "-c", CONVERSION, tmp_path, path],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["names"]
    assert all(seen["equal"])
    assert seen["tokens"] == [
        "abc", "\u0120", "1", "2", "<|im_start|>", "ab", "<tool>",
    ]  # fmt: skip
    assert seen["back"] == "abc 12"
    config = seen["config"]
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["tie_word_embeddings"] is True
    assert config["rms_norm_eps"] == 1e-5
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == (4, 2)
    assert (config["bos_token_id"], config["eos_token_id"]) == (1, 0)


@pytest.mark.docker
@pytest.mark.engine
def test_the_doctor_is_content_with_this_machine(base_image: str) -> None:
    done = rackbench("doctor", "--json", env={})
    findings = {row["name"]: row for row in json.loads(done.stdout)}
    assert findings["engine"]["state"] == "ok"
    assert findings["base-image"]["state"] == "ok"
    assert done.returncode == 0


def test_the_doctor_ends_with_3_where_something_is_missing(tmp_path: Path) -> None:
    done = rackbench("doctor", "--json", env={"RACKBENCH_CACHE": str(tmp_path)})
    findings = {row["name"]: row for row in json.loads(done.stdout)}
    assert findings["engine"]["state"] == "missing"
    assert done.returncode == 3
    told = rackbench("doctor", env={"RACKBENCH_CACHE": str(tmp_path)})
    assert "rackbench doctor --fix engine" in told.stdout
    assert told.returncode == 3


def test_a_remedy_that_does_not_exist_is_a_usage_error() -> None:
    done = rackbench("doctor", "--fix", "gpus", env={})
    assert done.returncode == 2
    assert "there is no remedy for gpus" in done.stderr
