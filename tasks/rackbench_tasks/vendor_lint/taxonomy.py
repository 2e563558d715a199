"""The domains and languages that the profile knows, in its own spelling."""

from __future__ import annotations

DOMAINS: dict[str, tuple[str, ...]] = {
    "Science": ("Biology", "Chemistry", "Physics", "Earth", "Robotics", "Math", "Linguistics"),
    "Software": ("Algorithms", "Systems", "Databases", "Data engineering", "Frontend"),
    "ML": ("Training", "Inference", "Evaluation", "Kernels"),
    "Operations": (
        "Finance",
        "Logistics",
        "Supply chain",
        "Claims",
        "Compliance",
        "Marketing",
    ),
    "Security": ("Cryptography", "Forensics", "AppSec"),
    "Hardware": ("CAD", "RTL"),
    "Media": ("Music", "Design"),
}
LANGUAGES = ("Python", "C", "C++", "JavaScript", "TypeScript", "Java", "Go", "Rust", "C#")
"""Compared without regard to case."""
EXPLANATIONS = (
    "difficulty_explanation",
    "solution_explanation",
    "verification_explanation",
    "relevant_experience",
)
CANONICAL_BASES = (
    "python",
    "node",
    "golang",
    "rust",
    "eclipse-temurin",
    "gcc",
    "ruby",
    "debian",
    "ubuntu",
)
RESERVED = ("/tests", "/solution", "/oracle", "/logs/verifier", "/logs/artifacts")
"""Paths of the verifier and the oracle."""


def is_reserved(path: str) -> bool:
    """Whether a path is, or lies below, one that belongs to the verifier or the oracle."""
    return any(path == one or path.startswith(f"{one}/") for one in RESERVED)
