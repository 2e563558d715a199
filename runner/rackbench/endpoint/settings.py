"""What the run file can say about an endpoint, whatever its kind."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rackbench_harnesses.settings import Settings
from rackbench_results.records import TokenWeights


class Price(Settings):
    """What a device costs; there is no default price."""

    per_device_hour: Annotated[float, Field(ge=0)]
    """Of one GPU, or of one CPU core where there is no GPU."""
    currency: str = "USD"
    date: str
    """When this price held (YYYY-MM-DD)."""
    source: str
    """Where it was read: an invoice, a list, a quotation."""


class EndpointSettings(Settings):
    """Keys that every kind of endpoint takes."""

    kind: str
    """external, vllm or scripted; or a plug-in's name."""
    profile: str | None = None
    """A shipped profile by name, or a file; it holds the model's policy and serving arguments."""
    price: Price | None = None
    """Of the devices, for the cost of the run."""
    gpus: Annotated[int, Field(ge=1)] | None = None
    """GPUs that serve it; None: read off the serving arguments, unknown for external ones."""
    token_weights: TokenWeights | None = None
    """For sharing out the engine's time by tokens; None: calibrated on the run where it is long
    enough, else the ratio of the list price."""
    tools: Literal["auto", "yes", "no"] = "auto"
    """Whether harnesses may call tools; auto: as the pre-flight finds."""
