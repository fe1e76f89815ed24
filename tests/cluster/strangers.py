#!/usr/bin/env python3
"""How soon srun's tracker answers an honest greeting while a stranger who has a processor to itself is about.

    strangers.py [--build FOLDER] [--held N] [--greetings N]

The stranger sends short lines, or connects and says one, as fast as it can, or holds N connections on which it says
nothing. Prints the median and the longest of the answers, in milliseconds. Needs two processors."""

import argparse
import hashlib
import hmac
import multiprocessing
import os
import resource
import secrets
import socket
import subprocess
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder with berth-pull")
    parser.add_argument("--held", type=int, default=2000, help="silent connections")
    parser.add_argument("--greetings", type=int, default=20)
    return parser.parse_args()


def connected(port):
    try:
        return socket.create_connection(("127.0.0.1", port), 10)
    except OSError:
        return None


def send(port, data):
    while True:
        with connected(port) or socket.socket() as connection:
            try:
                connection.sendall(data)
            except OSError:
                pass


def hold(port, count):
    """Those that are closed are made anew."""
    held = []
    while True:
        held += [connection for connection in (connected(port) for _ in range(count - len(held))) if connection]
        time.sleep(0.2)
        for connection in held:
            connection.setblocking(False)
            try:
                connection.recv(1)
                connection.close()
            except BlockingIOError:
                pass
            except OSError:
                connection.close()
        held = [connection for connection in held if connection.fileno() >= 0]


def stranger(work, *its):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    work(*its)


def greet(port, secret):
    """Seconds until a node of the step is answered."""
    words = f"berth-share-1 {secrets.token_hex(16)}"
    code = hmac.new(secret.encode(), f"{words}\nnode".encode(), hashlib.sha256).hexdigest()
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.settimeout(30)
        connection.sendall(f"{words} {code}\n".encode())
        if not connection.recv(4096).startswith(b"berth-share-1 "):
            raise SystemExit("a greeting was not answered")
    return time.monotonic() - start


def main():
    options = arguments()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    secret, listening = secrets.token_hex(16), socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(4096)
    port = listening.getsockname()[1]
    tracker = subprocess.Popen([f"{options.build}/berth-pull", "agree", "2"], stdin=listening.fileno(),
                               env={"BERTH_AGREE_SECRET": secret})
    strangers = {"none": None, "lines": (send, port, b"berth-share-1 x y\n" * 4000), "connects": (send, port, b"x\n"),
                 "silent": (hold, port, options.held)}
    for name, its in strangers.items():
        process = its and multiprocessing.Process(target=stranger, args=its, daemon=True)
        if process:
            process.start()
            time.sleep(4)
        times = sorted(greet(port, secret) * 1000 for _ in range(options.greetings))
        print(f"{name:10}{times[len(times) // 2]:8.1f} ms, at most {times[-1]:.1f} ms", flush=True)
        if process:
            process.kill()
    tracker.kill()


if __name__ == "__main__":
    main()
