"""A small job queue over HTTP and SQLite. What it promises is in docs/api.md."""
