"""Runs as files: records, the run folder, and every number that is derived from them.

Statistics, the index and the tables are imported from their own modules: they need libraries that
take their time.
"""

from rackbench_results.outcomes import RULES, Outcome, Reason, Rule, is_counted, is_retried
from rackbench_results.records import (
    AttemptRecord,
    Call,
    EndpointCost,
    EndpointIdentity,
    Event,
    Phase,
    Preflight,
    PreflightCheck,
    Record,
    Result,
    Step,
    ToolCall,
    TrialKey,
    Usage,
)
from rackbench_results.store import (
    AttemptLog,
    RunFolder,
    RunLocked,
    StoreError,
    append_line,
    create_run,
    lock_run,
    new_run_id,
    read_json,
    read_lines,
    read_record,
    write_json,
    write_record,
)

__all__ = [
    "RULES",
    "AttemptLog",
    "AttemptRecord",
    "Call",
    "EndpointCost",
    "EndpointIdentity",
    "Event",
    "Outcome",
    "Phase",
    "Preflight",
    "PreflightCheck",
    "Reason",
    "Record",
    "Result",
    "Rule",
    "RunFolder",
    "RunLocked",
    "Step",
    "StoreError",
    "ToolCall",
    "TrialKey",
    "Usage",
    "append_line",
    "create_run",
    "is_counted",
    "is_retried",
    "lock_run",
    "new_run_id",
    "read_json",
    "read_lines",
    "read_record",
    "write_json",
    "write_record",
]
