"""gunicorn as the image starts it: a process a core, four to eight threads each, behind the proxy alone."""

from __future__ import annotations

import os
from typing import Any

bind = "0.0.0.0:8000"
workers = int(os.environ.get("WEB_CONCURRENCY") or len(os.sched_getaffinity(0)))
worker_class = "gthread"
# Eight requests at once in all, and no process takes many more than its share of them.
threads = max(4, 8 // workers)
# A process whose threads are all busy leaves what comes next to the others. The proxy keeps no connection open.
worker_connections = threads
keepalive = 0
timeout = 120
# A request's scheme is what Django makes of the proxy's header, where TRUSTED_PROXIES says that there is one.
forwarded_allow_ips = ""
# The socket would be one more way in.
control_socket_disable = True


def post_worker_init(_worker: Any) -> None:
    """Have the process ready that tables are read in: nobody's question waits for its imports."""
    from releases.worker import runner

    runner.warm()
