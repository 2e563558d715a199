"""What every talk with the engine needs: its errors in words, and removal by force."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import docker
import docker.errors
import requests

from rackbench_harnesses.ports import SandboxError

_CONFLICT = 409


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn whatever the engine's client raises into a SandboxError that says what was tried."""
    try:
        yield
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        reason = getattr(error, "explanation", None) or error
        message = f"{doing}: {reason}"
        raise SandboxError(message) from error


def remove(api: docker.APIClient, container_id: str) -> None:
    """Remove a container by force: stopping it first would wait out its grace for nothing."""
    try:
        api.remove_container(container_id, v=True, force=True)
    except docker.errors.NotFound:
        return
    except docker.errors.APIError as error:
        if error.status_code != _CONFLICT:  # somebody else is removing it
            raise
