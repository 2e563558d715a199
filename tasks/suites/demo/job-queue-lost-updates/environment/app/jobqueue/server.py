"""The store over HTTP."""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jobqueue.store import NotFound, NotYours


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store = None

    def do_GET(self):
        self.answer_with(self.read)

    def do_POST(self):
        self.answer_with(self.write)

    def read(self):
        if self.path == "/health":
            return 200, {}
        if self.path == "/stats":
            return 200, self.store.stats()
        if match := re.fullmatch(r"/jobs/(\d{1,18})", self.path):
            return 200, self.store.get(int(match[1]))
        return 404, {"error": "no such path"}

    def write(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path == "/jobs":
            number, new = self.store.submit(
                body["payload"], body.get("priority", 0), body.get("key")
            )
            return (201 if new else 200), {"id": number}
        if self.path == "/claim":
            job = self.store.claim(body["worker"], body.get("lease_seconds", 30))
            return (200, job) if job else (204, None)
        if match := re.fullmatch(r"/jobs/(\d{1,18})/complete", self.path):
            self.store.complete(int(match[1]), body["worker"], body.get("result"))
            return 200, {"id": int(match[1])}
        return 404, {"error": "no such path"}

    def answer_with(self, act):
        try:
            status, body = act()
        except NotFound:
            status, body = 404, {"error": "no such job"}
        except NotYours:
            status, body = 409, {"error": "not your job"}
        except (KeyError, TypeError, ValueError) as error:
            status, body = 400, {"error": repr(error)}
        except Exception as error:
            print(f"{self.command} {self.path}: {error!r}", file=sys.stderr, flush=True)
            status, body = 500, {"error": repr(error)}
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, form, *arguments):
        pass


def serve(store, port):
    Handler.store = store
    with Server(("127.0.0.1", port), Handler) as server:
        server.serve_forever()
