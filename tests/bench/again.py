#!/usr/bin/env python3
"""What a pull costs when little or nothing is new: an image that is in the store already, and one that adds a small
layer to it.
usage: again.py BERTH_PULL [--entries N] [--runs N]

Medians of interleaved runs beside what cannot be avoided: the round trip of one HEAD, and a pull of the small layer
alone into an empty store.
A registry of this program's own counts requests and connections. Exit code 1 when a target is missed.
"""
import argparse
import gzip
import hashlib
import http.client
import http.server
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import ngc_image


class Registry(http.server.ThreadingHTTPServer):
    """Serves the blobs of an OCI layout as repository x; each tag is a manifest's digest."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, layout):
        super().__init__(("127.0.0.1", 0), Handler)
        self.blobs = os.path.join(layout, "blobs/sha256")
        self.tags, self.requests, self.connections = {}, [], 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def host(self):
        return f"127.0.0.1:{self.server_address[1]}"

    def finish_request(self, request, client_address):
        self.connections += 1
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        pass  # a client that hangs up when it is done


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(head=True)

    def do_GET(self):
        self.answer(head=False)

    def answer(self, head):
        self.server.requests.append(f"{self.command} {self.path}")
        kind, name = self.path.split("/")[-2:]
        digest = self.server.tags.get(name, name.removeprefix("sha256:"))
        with open(os.path.join(self.server.blobs, digest), "rb") as file:
            self.send_response(200)
            self.send_header("Content-Type",
                "application/vnd.oci.image.manifest.v1+json" if kind == "manifests" else "application/octet-stream")
            self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            self.send_header("Docker-Content-Digest", "sha256:" + digest)
            self.end_headers()
            if not head:
                self.wfile.flush()
                self.connection.sendfile(file)


def head_seconds(registry):
    start = time.perf_counter()
    connection = http.client.HTTPConnection(registry.host)
    connection.request("HEAD", "/v2/x/manifests/base")
    connection.getresponse().read()
    connection.close()
    return time.perf_counter() - start


def pull_seconds(program, registry, store, tag):
    registry.requests.clear()
    registry.connections = 0
    start = time.perf_counter()
    subprocess.run([program, "--store", store, f"{registry.host}/x:{tag}"], check=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def tag_image(registry, layout, tag, layers):
    ngc_image.write_image(layout, layers, tag.encode())
    with open(os.path.join(layout, "index.json"), encoding="ascii") as file:
        registry.tags[tag] = json.load(file)["manifests"][0]["digest"].removeprefix("sha256:")


def write_base(layout, entries, layers=14):
    """Layers of many small files: what is merged again for a derived image is their names."""
    facts = []
    for number in range(layers):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for file in range(entries // layers):
                content = f"{number}/{file}\n".encode() * 5
                tar.addfile(ngc_image.entry(f"usr/lib/package{file // 50}/layer{number}/module{file}.py",
                    size=len(content)), io.BytesIO(content))
        packed = gzip.compress(data.getvalue(), 6, mtime=0)
        facts.append((ngc_image.blob(layout, packed), len(packed), hashlib.sha256(data.getvalue()).hexdigest()))
    return facts


def measure(program, registry, work, runs):
    """Seconds of each kind of pull, in turns, so that what else the machine does falls on all alike."""
    base = os.path.join(work, "base")
    pull_seconds(program, registry, base, "base")
    cold = registry.connections
    rows = {"HEAD": [], "again": [], "alone": [], "derived": []}
    requests = {}
    for _ in range(runs):
        rows["HEAD"].append(head_seconds(registry))
        rows["again"].append(pull_seconds(program, registry, base, "base"))
        requests["again"] = list(registry.requests)
        for tag in ("alone", "derived"):
            store = os.path.join(work, tag)
            shutil.rmtree(store, ignore_errors=True)
            if tag == "derived":
                subprocess.run(["cp", "-al", base, store], check=True)
            rows[tag].append(pull_seconds(program, registry, store, tag))
            requests[tag] = (len(registry.requests), registry.connections)
    return {name: statistics.median(row) for name, row in rows.items()}, requests, cold


def main():
    options = argparse.ArgumentParser()
    options.add_argument("pull")
    options.add_argument("--entries", type=int, default=70_000, help="files in the image that is there already")
    options.add_argument("--runs", type=int, default=15)
    options = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="berth-again-") as work:
        layout = os.path.join(work, "layout")
        os.makedirs(os.path.join(layout, "blobs/sha256"))
        layers = write_base(layout, options.entries)
        registry = Registry(layout)
        small = ngc_image.write_small_layer(layout)
        for tag, content in {"base": layers, "derived": layers + [small], "alone": [small]}.items():
            tag_image(registry, layout, tag, content)
        seconds, requests, cold = measure(os.path.abspath(options.pull), registry, work, options.runs)
    milliseconds = {name: 1000 * value for name, value in seconds.items()}
    again, derived, alone, head = (milliseconds[name] for name in ("again", "derived", "alone", "HEAD"))
    count, connections = requests["derived"]
    checks = {
        f"again: {again:.1f} ms, a HEAD alone {head:.1f} ms (at most 20 ms more)": again <= head + 20,
        f"again: {', '.join(requests['again'])} (one HEAD)":
            [line.split()[0] for line in requests["again"]] == ["HEAD"],
        f"derived: {derived:.1f} ms, its layer alone {alone:.1f} ms (at most 1.2 times and 50 ms)":
            derived <= 1.2 * alone + 50,
        f"derived: {count} requests over {connections} connection (4 over 1)": (count, connections) == (4, 1),
        f"cold: {len(layers)} layers over {cold} connections (at most 4)": cold <= 4,
    }
    for line, good in checks.items():
        print(("ok      " if good else "MISSED  ") + line)
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
