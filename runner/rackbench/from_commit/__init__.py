"""Turns fixes of a repository into tasks."""

from rackbench.from_commit.creation import create
from rackbench.from_commit.fix import Fix, find_fix
from rackbench.from_commit.proof import ProofError
from rackbench.from_commit.repository import Repository, open_repository
from rackbench.from_commit.request import Created, Request
from rackbench.from_commit.scan import Candidate, Limits, Scan, scan
from rackbench.from_commit.several import Proved, from_commit, prove_all

__all__ = [
    "Candidate",
    "Created",
    "Fix",
    "Limits",
    "ProofError",
    "Proved",
    "Repository",
    "Request",
    "Scan",
    "create",
    "find_fix",
    "from_commit",
    "open_repository",
    "prove_all",
    "scan",
]
