"""The profile `tb4-vendor`: rules of one vendor for tasks, as far as their files show them."""

from rackbench_tasks.vendor_lint.delivery import bundle_hash
from rackbench_tasks.vendor_lint.finding import Level, LintFinding
from rackbench_tasks.vendor_lint.lint import lint

__all__ = ["Level", "LintFinding", "bundle_hash", "lint"]
