"""`python -m tests.moto_server PORT`: moto's S3 server, one request at a time.

By itself it looks whether a key is there and writes it in two steps, between which another thread
may do the same (seen with moto 5.2.5 on a busy machine): no store that people run does that.
"""

import sys
from collections.abc import Iterable
from threading import Lock
from wsgiref.types import StartResponse, WSGIEnvironment

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


class OneAtATime:
    """The whole of moto's server behind a lock."""

    def __init__(self) -> None:
        self.application = DomainDispatcherApplication(create_backend_app)
        self.lock = Lock()

    def __call__(self, environ: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        with self.lock:
            return list(self.application(environ, respond))


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), OneAtATime(), threaded=True)
