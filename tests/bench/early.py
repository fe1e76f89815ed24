#!/usr/bin/env python3
"""A cold start over a shaped link, until the program is ready: complete first, early, early with a profile of an empty
program of the interpreter ("program"), and with one of this program.

usage: early.py BERTH [--scale S] [--cache DIR] [--rate MBIT] [--delay MS] [--rounds N] [--json FILE]

To be run as root, for network namespaces and the site's file. The image is that of image.py with one more layer: the
Python of this machine and 12,000 modules, of which the program imports 1,500, and parts of five large libraries are
read. The registry is in a network namespace of its own; the link from it has the rate, and each request to it comes
later by the delay. Each start has an empty store on a disk whose pages are not in memory.
"""
import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib

import image
import ngc_image

MODULES, IMPORTED = 12_000, 1_500
LIBRARIES = 5
PROGRAM = f"""
import glob, os, sys
sys.path.insert(0, "/opt/modules")
for number in range(0, {MODULES}, {MODULES // IMPORTED}):
    __import__(f"module_{{number:05d}}")
large = sorted((os.path.getsize(p), p) for p in glob.glob("/usr/local/lib/python3/dist-packages/torch/*")
    if os.path.isfile(p))[-{LIBRARIES}:]
total = 0
for size, path in large:
    with open(path, "rb") as file:
        for at in range(0, min(size, 16 << 20), 64 << 10):
            file.seek(at)
            total += len(file.read(4096))
print("ready", total, flush=True)
sys.stdin.readline()
"""


def libraries(program):
    """The program's libraries and its loader, as ldd tells them."""
    out = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return sorted({word for word in out.split() if word.startswith("/")})


def write_app_layer(folder):
    """(digest, size, diff_id) of the layer with Python, its modules and the program."""
    path = os.path.join(folder, "blobs/sha256", "app-layer")
    contents = ngc_image.Contents(4711)
    sizes = random.Random(5)
    with open(path, "wb") as file:
        packer, hash_ = zlib.compressobj(6, zlib.DEFLATED, 31), hashlib.sha256()

        class Sink(io.RawIOBase):
            def write(self, data):
                hash_.update(data)
                file.write(packer.compress(data))
                return len(data)

        with tarfile.open(fileobj=Sink(), mode="w|", format=tarfile.PAX_FORMAT) as tar:
            python = os.path.realpath("/usr/bin/python3")
            for source in [python, *libraries(python)]:
                tar.add(os.path.realpath(source), arcname=source[1:], recursive=False)
            tar.add(os.path.realpath("/lib64/ld-linux-x86-64.so.2"), arcname="lib64/ld-linux-x86-64.so.2")
            library = subprocess.run([python, "-c", "import os; print(os.path.dirname(os.__file__))"], check=True,
                capture_output=True, text=True).stdout.strip()
            tar.add(library, arcname=library[1:], filter=lambda one: None if "/test" in one.name else one)
            link = ngc_image.entry("usr/bin/python", tarfile.SYMTYPE, link=python)
            tar.addfile(link)
            for number in range(MODULES):
                text = contents.make(sizes.randrange(2000, 16000)).hex().encode()[:sizes.randrange(3000, 20000)]
                data = b"x = '" + text + b"'\n"
                tar.addfile(ngc_image.entry(f"opt/modules/module_{number:05d}.py", size=len(data)), io.BytesIO(data))
            data = PROGRAM.encode()
            tar.addfile(ngc_image.entry("opt/ready.py", size=len(data)), io.BytesIO(data))
        file.write(packer.flush())
    digest = ngc_image.file_digest(path)
    os.rename(path, os.path.join(folder, "blobs/sha256", digest))
    return digest, os.path.getsize(os.path.join(folder, "blobs/sha256", digest)), hash_.hexdigest()


def layout(cache, scale):
    folder = os.path.join(cache, f"early-{scale}")
    facts = os.path.join(folder, "layers.json")
    if not os.path.exists(facts):
        shutil.rmtree(folder, ignore_errors=True)
        layers = ngc_image.write_layers(folder, scale) + [write_app_layer(folder)]
        with open(facts, "w", encoding="ascii") as file:
            json.dump(layers, file)
    with open(facts, encoding="ascii") as file:
        layers = json.load(file)
    ngc_image.write_image(folder, layers)
    return folder


def run(*words):
    subprocess.run(words, check=True)


@contextlib.contextmanager
def far_registry(work, rate, delay):
    """docker-registry behind a link of `rate` Mbit/s and `delay` ms there and back; its address, and what shapes it.

    Not every kernel can delay packets, so that a program in front of the registry delays what is sent to it: a
    connection begins at full speed, which on a real link takes some round trips more.
    """
    name, here, there = "berth-early", "berth-e0", "berth-e1"
    config = f"{work}/registry.yml"
    with open(config, "w", encoding="ascii") as file:
        file.write("version: 0.1\nlog: {level: error, accesslog: {disabled: false}}\n"
            f"storage: {{filesystem: {{rootdirectory: {work}/registry}}}}\nhttp: {{addr: '127.0.0.1:5000'}}\n")
    run("ip", "netns", "add", name)
    processes = []
    try:
        run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        run("ip", "addr", "add", "10.99.7.2/24", "dev", here)
        run("ip", "link", "set", here, "up")
        run("ip", "-n", name, "addr", "add", "10.99.7.1/24", "dev", there)
        run("ip", "-n", name, "link", "set", there, "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        with open(f"{work}/registry.log", "wb") as log:
            processes.append(subprocess.Popen(["ip", "netns", "exec", name, "docker-registry", "serve", config],
                stdout=log, stderr=log))
        time.sleep(1)
        processes.append(subprocess.Popen(["ip", "netns", "exec", name, sys.executable, os.path.abspath(__file__),
            "--between", str(delay / 1000)]))
        for _ in range(100):
            if subprocess.run(["curl", "-sf", "-o", "/dev/null", "http://10.99.7.1:5000/v2/"]).returncode == 0:
                break
            time.sleep(0.1)

        def shape():
            run("tc", "-n", name, "qdisc", "replace", "dev", there, "root", "tbf", "rate", f"{rate}mbit", "burst",
                "256k", "latency", "50ms")
        yield "10.99.7.1:5000", shape
    finally:
        for one in processes:
            one.terminate()
            one.wait()
        run("ip", "netns", "del", name)


def between(delay):
    """Passes on what comes to port 5000 of the link: to the registry `delay` seconds later, and back at once."""
    def there(source, target):
        last = 0.0
        while data := source.recv(1 << 20):
            # What follows at once, as a body does, is as late as its beginning.
            if time.monotonic() - last > delay:
                time.sleep(delay)
            target.sendall(data)
            last = time.monotonic()
        target.close()

    def back(source, target):
        buffer = memoryview(bytearray(1 << 20))
        while size := source.recv_into(buffer):
            target.sendall(buffer[:size])
        target.shutdown(socket.SHUT_RDWR)

    def guarded(pass_on, *sockets):
        with contextlib.suppress(OSError):
            pass_on(*sockets)

    with socket.create_server(("10.99.7.1", 5000), backlog=64) as server:
        while True:
            client, _ = server.accept()
            registry = socket.create_connection(("127.0.0.1", 5000))
            threading.Thread(target=guarded, args=(there, client, registry), daemon=True).start()
            threading.Thread(target=guarded, args=(back, registry, client), daemon=True).start()


def counters():
    """Bytes that have come over the link."""
    with open("/sys/class/net/berth-e0/statistics/rx_bytes", encoding="ascii") as file:
        return int(file.read())


def requests(work):
    with open(f"{work}/registry.log", encoding="utf-8", errors="replace") as file:
        return sum('"GET /v2/' in line or '"HEAD /v2/' in line for line in file)


def start(berth, name, store, mode, work):
    """Seconds until the program says that it is ready, bytes and requests by then, and seconds until the image is
    whole."""
    run("sh", "-c", "sync; echo 1 > /proc/sys/vm/drop_caches")
    environment = {**os.environ, "BERTH_STORE_PATH": store, "BERTH_STORE_START": mode}
    bytes_before, requests_before, begin = counters(), requests(work), time.perf_counter()
    with subprocess.Popen([berth, "run", "-q", name, "/usr/bin/python", "-B", "/opt/ready.py"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=environment, text=True) as process:
        line = process.stdout.readline()
        row = {"ready": time.perf_counter() - begin, "bytes": counters() - bytes_before}
        if not line.startswith("ready"):
            sys.exit(f"{mode}: {line!r}")
        time.sleep(0.2)  # docker-registry writes its log afterwards
        row["requests"] = requests(work) - requests_before
        while not os.listdir(f"{store}/images"):
            time.sleep(0.02)
        row["whole"] = time.perf_counter() - begin
        process.stdin.write("\n")
        process.stdin.close()
    return row


def site(registry, work):
    """As image.published_site(), with a registry that is not of this machine."""
    path, key = image.published_site(registry, work)
    with open(path, "a", encoding="ascii") as file:
        file.write(f'[registry."{registry}"]\nplain_http = true\n')
    # Of this program's mount namespace alone, see main().
    run("mount", "-t", "tmpfs", "-o", "mode=0755", "none", "/etc/berth")
    shutil.copy(path, "/etc/berth/berth.conf")
    os.chmod("/etc/berth/berth.conf", 0o644)
    return key


def measure(options, work):
    rows = {}
    with far_registry(work, options.rate, options.delay) as (registry, shape):
        name = f"{registry}/ngc:base"
        image.push(layout(options.cache, options.scale), name)
        key = site(registry, work)
        publisher = {**os.environ, "BERTH_STORE_PATH": f"{work}/publisher"}
        publish = lambda *more: subprocess.run([options.berth, "publish", "-q", "--sign", key, *more, name], check=True,
            env=publisher)
        publish()
        shape()
        for number in range(options.rounds):
            for mode in "complete", "early":
                rows.setdefault(mode, []).append(start(options.berth, name, f"{work}/store", mode, work))
                if mode == "complete":
                    rows.setdefault("warm", []).append(start(options.berth, name, f"{work}/store", mode, work))
                shutil.rmtree(f"{work}/store")
        # What an order without a profile could know at best, and what starts read.
        for mode, command in ("program", ["-c", "pass"]), ("profile", ["/opt/ready.py"]):
            run("tc", "-n", "berth-early", "qdisc", "del", "dev", "berth-e1", "root")
            subprocess.run([options.berth, "profile", "-q", name, "/usr/bin/python", "-B", *command], check=True,
                env=publisher, stdin=subprocess.DEVNULL)
            publish("--force")
            shape()
            for number in range(options.rounds):
                rows.setdefault(mode, []).append(start(options.berth, name, f"{work}/store", "early", work))
                shutil.rmtree(f"{work}/store")
    return rows


def main():
    if sys.argv[1] == "--between":
        between(float(sys.argv[2]))
    options = argparse.ArgumentParser()
    options.add_argument("berth", type=os.path.abspath)
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--cache", default="/var/tmp/berth-bench")
    options.add_argument("--rate", type=float, default=1000)
    options.add_argument("--delay", type=float, default=20)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json")
    options = options.parse_args()
    if os.environ.get("BERTH_BENCH_NAMESPACE") is None:
        made = not os.path.exists("/etc/berth")
        os.makedirs("/etc/berth", exist_ok=True)
        code = subprocess.run(["unshare", "--mount", sys.executable, *sys.argv],
            env={**os.environ, "BERTH_BENCH_NAMESPACE": "1"}).returncode
        if made:
            os.rmdir("/etc/berth")
        sys.exit(code)
    os.makedirs(options.cache, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="berth-early-", dir=options.cache) as work:
        rows = measure(options, work)
    print(f"{'':10}{'ready s':>9}{'MB by then':>12}{'requests':>10}{'whole s':>9}")
    for name, runs in rows.items():
        middle = sorted(runs, key=lambda one: one["ready"])[len(runs) // 2]
        print(f"{name:10}{middle['ready']:9.2f}{middle['bytes'] / 1e6:12.0f}{middle['requests']:10}"
              f"{middle['whole']:9.2f}   (ready {', '.join(format(one['ready'], '.2f') for one in runs)})")
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
