# Where the sales reports live, for login shells.
export REPORT_HOME=/app
export PATH=/app/tools/bin:$PATH
