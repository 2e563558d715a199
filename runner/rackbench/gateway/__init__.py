"""The metering proxy between harness and engine: every model call passes through it."""

from rackbench.gateway.line import Line
from rackbench.gateway.policy import Policy
from rackbench.gateway.server import Gateway, open_gateway
from rackbench.gateway.upstream import Upstream

__all__ = ["Gateway", "Line", "Policy", "Upstream", "open_gateway"]
