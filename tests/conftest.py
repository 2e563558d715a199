"""What all tests share: a Docker daemon that is really there, and the base image."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

BASE_IMAGE = "rackbench/base:1"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def docker_api() -> Iterator[docker.APIClient]:
    client = docker.from_env()
    client.ping()
    yield client.api
    client.close()


@pytest.fixture(scope="session")
def base_image(docker_api: docker.APIClient) -> str:
    docker_api.inspect_image(BASE_IMAGE)
    return BASE_IMAGE
