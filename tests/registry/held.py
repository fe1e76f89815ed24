"""A registry in front of another one that keeps some blobs back: held.py PORT TARGET FILE.

Everything is passed on to the registry TARGET (HOST:PORT). A GET of a blob whose digest is a line of FILE waits until
it is none any more; a line "gone" in it ends every request without an answer. Prints a line for each request.
"""

import http.client
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, target, held_file = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def held():
    try:
        with open(held_file, encoding="ascii") as file:
            return set(file.read().split())
    except FileNotFoundError:
        return set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        print(self.requestline, flush=True)
        if "gone" in held():
            self.close_connection = True
            return
        blob = self.path.rsplit("/", 1)[-1]
        while self.command == "GET" and blob in held() and "gone" not in held():
            time.sleep(0.05)
        if "gone" in held():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        there = http.client.HTTPConnection(target)
        # With this server's name, so that what the other one refers to is here as well.
        there.request(self.command, self.path, body, dict(self.headers))
        answer = there.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        if "Content-Length" not in answer.headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = forward

    def log_message(self, format, *args):
        pass


ThreadingHTTPServer.request_queue_size = 64
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
