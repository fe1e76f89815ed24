"""A registry that serves one small image, with the fault that the repository's name asks for: faulty.py PORT.

good, truncated (a layer ends early), flipped (a bit of a layer differs), size (a layer is a byte longer than said),
diffid (the config names another tar), config (a bit of the config differs), manifest (not what its digest says),
garbage (bytes after the gzip's end), short-gzip (the gzip ends early but matches its digest), slow and slower
(three and eight seconds for the layer), crawling (two minutes for it), broken (the first four requests for the layer
end early), page (a page of HTML for everything), uppercase and traversal (bad digests in the manifest), count (a
diff_id too many). Prints the first line of each request.
"""

import gzip
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from oci_layout import LAYER, MEDIA, digest, file, tar
from program import program


def flipped(data):
    return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]


def image(fault):
    """(manifest bytes, {digest: bytes as served}) of the image with this fault."""
    # No two faults share a layer, which a store would not fetch again; a megabyte, so that one that ends early ends in
    # mid-transfer.
    plain = tar([file("bare", program(), 0o755), file("filler", fault.encode() + bytes(1 << 20))])
    packed = gzip.compress(plain, 0, mtime=0)
    packed = {"garbage": packed + b"garbage", "short-gzip": packed[:-300]}.get(fault, packed)
    diff_ids = [digest(b"another tar" if fault == "diffid" else plain)] * (2 if fault == "count" else 1)
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": diff_ids}}).encode()
    bad = {"uppercase": digest(packed).upper(), "traversal": "sha256:../../../../etc/passwd"}
    named = bad.get(fault, digest(packed))
    manifest = json.dumps({
        "schemaVersion": 2,
        "mediaType": MEDIA + "manifest.v1+json",
        "config": {"mediaType": MEDIA + "config.v1+json", "digest": digest(config), "size": len(config)},
        "layers": [{"mediaType": LAYER + "+gzip", "digest": named, "size": len(packed)}],
    }).encode()
    served = {"flipped": flipped(packed), "size": packed + b"x"}.get(fault, packed)
    return manifest, {named: served, digest(config): flipped(config) if fault == "config" else config}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    broken = 4

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body):
        parts = self.path.split("/")
        if self.path == "/v2/":
            return self.send(b"{}", with_body)
        if len(parts) != 5 or parts[1] != "v2":
            return self.send_error(404)
        fault, kind, name = parts[2:]
        if fault == "page":
            return self.send(b"<html><title>Please log in</title>\n<body></body></html>", with_body, "text/html")
        manifest, blobs = image(fault)
        if kind == "manifests":
            named = digest(b"another manifest") if fault == "manifest" else digest(manifest)
            return self.send(manifest, with_body, MEDIA + "manifest.v1+json", named)
        if name not in blobs:
            return self.send_error(404)
        is_layer = len(blobs[name]) > 1024
        ends_early = is_layer and fault == "truncated"
        if is_layer and with_body and fault == "broken" and Handler.broken > 0:
            Handler.broken -= 1
            ends_early = True
        seconds = {"slow": 3, "slower": 8, "crawling": 120}.get(fault, 0) if is_layer else 0
        self.send(blobs[name], with_body, ends_early=ends_early, seconds=seconds)

    def send(self, body, with_body, media_type="application/octet-stream", named=None, ends_early=False, seconds=0):
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        if named:
            self.send_header("Docker-Content-Digest", named)
        self.end_headers()
        if with_body:
            self.write_slowly(body[: len(body) // 2] if ends_early else body, seconds)
        if ends_early:
            self.close_connection = True

    def write_slowly(self, body, seconds):
        parts = 10 * seconds or 1
        size = len(body) // parts + 1
        for at in range(0, len(body), size):
            self.wfile.write(body[at : at + size])
            self.wfile.flush()
            time.sleep(seconds / parts)

    def log_message(self, *_):
        # In one write: several threads write here.
        sys.stdout.write(self.requestline + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
