"""`python -m rackbench`."""

from rackbench.cli.main import main

main()
