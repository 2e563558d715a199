"""Start the service: QUEUE_DB and QUEUE_PORT say where."""

import os

from jobqueue.server import serve
from jobqueue.store import Store

serve(Store(os.environ["QUEUE_DB"]), int(os.environ["QUEUE_PORT"]))
