"""A registry that asks who is there: challenging.py PORT [CERTIFICATE KEY].

Serves one small image under three names: public (by a token that everybody gets), private (by a token for a login) and
basic (by Basic). The login is "good" with the password "pw-good". Prints a line for each request: METHOD PATH USER,
where USER is "-" without a login. With a certificate it speaks TLS.
"""

import base64
import ssl
import sys
from http.server import ThreadingHTTPServer

import faulty
from oci_layout import MEDIA, digest

GOOD = "good:pw-good"


class Handler(faulty.Handler):
    scheme = "http"

    def pair(self):
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        return base64.b64decode(value).decode(errors="replace") if kind == "Basic" else ""

    def answer(self, with_body):
        path = self.path.split("?")[0]
        if path == "/token":
            return self.give_token(with_body)
        parts = path.split("/")
        if len(parts) != 5 or parts[1] != "v2":
            return self.send(b"{}", with_body)
        name, kind, what = parts[2:]
        if not self.may(name):
            return self.challenge(name)
        manifest, blobs = faulty.image("good")
        if kind == "manifests":
            return self.send(manifest, with_body, MEDIA + "manifest.v1+json", digest(manifest))
        if what not in blobs:
            return self.send_error(404)
        self.send(blobs[what], with_body)

    def give_token(self, with_body):
        name = "private" if "private" in self.path else "public"
        pair = self.pair()
        if pair != GOOD and (pair or name == "private"):
            return self.challenge("basic")
        self.send(b'{"token":"t0k3n-%s"}' % name.encode(), with_body)

    def may(self, name):
        if name == "basic":
            return self.pair() == GOOD
        return self.headers.get("Authorization") == "Bearer t0k3n-" + name

    def challenge(self, name):
        host = self.headers["Host"]
        bearer = f'Bearer realm="{self.scheme}://{host}/token",service="{host}"'
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="box"' if name == "basic" else bearer)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        # In one write: several threads write here.
        sys.stdout.write(f"{self.command} {self.path.split('?')[0]} {self.pair().partition(':')[0] or '-'}\n")
        sys.stdout.flush()


class Server(ThreadingHTTPServer):
    request_queue_size = 64


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    if len(sys.argv) > 2:
        Handler.scheme = "https"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
