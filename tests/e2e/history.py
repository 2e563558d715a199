"""Small git repositories with a history, made for a test."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class History:
    """A repository that grows commit by commit, at fixed times."""

    folder: Path
    commits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        who = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in {
                "NAME": "Somebody",
                "EMAIL": "somebody@example.com",
                "DATE": f"2026-01-{len(self.commits) + 1:02} 12:00 +0000",
            }.items()
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**os.environ, **who},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(
        self, message: str, files: dict[str, str | bytes | None], *, executable: str = ""
    ) -> str:
        """Write files, remove those that are None, and commit."""
        for name, content in files.items():
            path = self.folder / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            if name == executable:
                path.chmod(0o755)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        self.commits.append(self.git("rev-parse", "HEAD"))
        return self.commits[-1]
