"""What ships for tests and demonstrations: a model server that answers from a script."""

from rackbench_harnesses.testing.script import (
    Conversation,
    Script,
    ScriptedCall,
    ScriptError,
    Turn,
    load_script,
)
from rackbench_harnesses.testing.server import ScriptedServer, serve_script

__all__ = [
    "Conversation",
    "Script",
    "ScriptError",
    "ScriptedCall",
    "ScriptedServer",
    "Turn",
    "load_script",
    "serve_script",
]
