"""What verifiers install, on this machine instead of the internet: filled once, lent per attempt."""

from rackbench.verifier_tools.offering import offer, withdraw
from rackbench.verifier_tools.tools import AT, VerifierTools, default_folder, load_tools
from rackbench.verifier_tools.warm import Missing, Warmed, warm_tools

__all__ = [
    "AT",
    "Missing",
    "VerifierTools",
    "Warmed",
    "default_folder",
    "load_tools",
    "offer",
    "warm_tools",
    "withdraw",
]
