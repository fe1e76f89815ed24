#!/usr/bin/env python3
"""A cluster in network namespaces: N nodes with a link of their own each, a registry behind one as well, and a real
berth-pull on each node that shares what it pulls with the others.

    laboratory.py --nodes 16 --rate 80 --megabytes 64 [--alone] [--early] [--kill N [--owners N]]
                  [--slow N [--slow-owners] [--slow-known]] [--loss PERCENT] [--partition SECONDS]
                  [--delay MS] [--json]
    laboratory.py --before FIRST,SECOND

Prints how long the nodes took, as ratios to S/B (the image's stored bytes by the rate of a link), how often the
registry was asked for each blob, and the CPU seconds. Anybody may run it who may make user namespaces (and, for
--delay, open /dev/net/tun): what it makes is in namespaces of its own and in one temporary folder. Exit code 1: a node
did not get the image, or a store is damaged, or a blob was asked for more often than once and once more for each node
that had asked for layers and was lost, or slow without saying so; 2: the machine was the bottleneck (CPU over 70%, with
--early until all nodes are ready), so that the times say nothing.

With --before, of three nodes the first is stopped, killed or slow 1.5 s after its start. When the second has the image
it is alive, stopped or gone, and the third one starts. Exit code 1: that has not the image 25 s after the bound at
which a node goes to the registry (60 s without a byte where another one has it, else 20 s).

With --early the image is published and signed, and starts before it is here: a node is ready when a program there has
read the image's profile, one part after the other, which is 6% of it in runs of three MiB (--part). That program is to
be built, by make tests."""

import argparse
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "registry"))
from namespaces import (  # noqa: E402
    BRIDGE, Link, as_user, busy, give_to_user, in_namespaces, make_bridge, make_rack, run)
from oci_layout import Layout, file as tar_file, tar  # noqa: E402

REGISTRY = "10.77.0.2"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder with berth-pull")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--rate", type=float, default=80, help="Mbit/s of each link, in each direction")
    parser.add_argument("--mtu", type=int, default=1500, help="bytes of a packet; 9000 on many clusters")
    parser.add_argument("--racks", type=int, default=0, help="switches, each with as many of the nodes in order")
    parser.add_argument("--uplink", type=float, help="Mbit/s of each such switch's link to the others and the registry")
    parser.add_argument("--registry-rate", type=float, help="Mbit/s of the registry's link (as --rate)")
    parser.add_argument("--delay", type=float, default=0, help="milliseconds to the registry, in each direction")
    parser.add_argument("--megabytes", type=int, default=32, help="of the image, in all layers")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--alone", action="store_true", help="each node pulls for itself")
    parser.add_argument("--early", action="store_true", help="starts come before the image")
    parser.add_argument("--part", type=float, default=0.06, help="of the image that a start reads, with --early")
    parser.add_argument("--slow", type=int, default=0, help="nodes with a quarter of the rate")
    parser.add_argument("--slow-owners", action="store_true", help="they come first, and so would bring layers")
    parser.add_argument("--slow-known", action="store_true", help="their links say how slow they are")
    parser.add_argument("--kill", type=int, default=0, help="nodes that are killed while they pull")
    parser.add_argument("--owners", type=int, default=0, help="so many of those killed bring a layer just then")
    parser.add_argument("--late", type=int, default=0, help="nodes that come two seconds later")
    parser.add_argument("--closed", type=int, default=0, help="nodes whose ports nobody reaches")
    parser.add_argument("--loss", type=float, default=0, help="percent of the packets that each node loses")
    parser.add_argument("--partition", type=float, default=0,
                        help="seconds for which the two halves of the nodes do not reach each other")
    parser.add_argument("--before", help="what has become of two nodes before a third: stopped,alive and the like")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true", help="what the nodes said and the registry was asked for, too")
    parser.add_argument("--curl", action="store_true",
                        help="compare a receiver's CPU seconds with curl over TLS, sha256sum and a file of them")
    parser.add_argument("--trace", action="store_true", help="how busy the links were in each second")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    out = parser.parse_args()
    if out.before:
        out.nodes, out.slow, out.slow_owners = 3, int(out.before.startswith("slow,")), True
    return out


def make_image(folder, megabytes, layers, seed):
    """Bytes that do not compress, in files of a few sizes, as layers of different size."""
    random.seed(seed)
    weights = [2 ** -i for i in range(layers)]
    tars = []
    for number, weight in enumerate(weights):
        left, entries = int(megabytes * 2**20 * weight / sum(weights)), []
        while left > 0:
            size = min(left, random.choice([3_000, 200_000, 1_000_000, 9_000_000]))
            entries.append(tar_file(f"layer{number}/file{len(entries)}", random.randbytes(size)))
            left -= size
        tars.append(tar(entries))
    layout = Layout(folder / "layout")
    manifest = layout.image(tars, {"Cmd": ["true"]}, compression="+zstd")
    layout.publish(manifest)
    return manifest["digest"]


def start_registry(link, folder):
    config = folder / "registry.yml"
    config.write_text(
        "version: 0.1\nlog: {level: info}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/registry}}}}\n"
        "http: {addr: ':5000'}\n")
    log = open(folder / "registry.log", "w")
    process = link.start(["docker-registry", "serve", config], stdout=log, stderr=log)
    for _ in range(100):
        try:
            socket.create_connection((link.address, 5000), 1).close()
            return process
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the registry does not answer")


def blob_requests(folder, log_start):
    """Who asked for each blob, as (address, when, bytes), in order. The registry writes a line when it has answered."""
    requests = {}
    log = open(folder / "registry.log")
    log.seek(log_start)
    for line in log:
        found = re.match(r'(\S+) .*\[(.*?)\] "GET /v2/\S*/blobs/(sha256:[0-9a-f]{64}) HTTP/1.1" 20[06] (\d+) ', line)
        if found:
            address, when, digest, size = found.groups()
            requests.setdefault(digest, []).append((address, when, int(size)))
    return requests


def publish(options, folder, digest):
    """Publishes the image's layers signed, with a profile: the site's file, the profile, the bytes of all layers."""
    name, layers = f"{REGISTRY}:5000/lab@{digest}", f"{REGISTRY}:5000/layers"
    run("openssl", "genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
        folder / "signer.pem")
    run("openssl", "pkey", "-in", folder / "signer.pem", "-pubout", "-out", folder / "signer.pub")
    signed = {"type": "sigstoreSigned", "keyPath": f"{folder}/signer.pub",
              "signedIdentity": {"type": "matchRepository"}}
    (folder / "policy.json").write_text(json.dumps(
        {"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {layers: [signed]}}}))
    site = folder / "berth.conf"
    site.write_text(f'[share]\nartifacts = "{layers}"\n[policy]\nsignatures = "{folder}/policy.json"\n'
                    f'[registry."{REGISTRY}:5000"]\nplain_http = true\n')
    store = folder / "publisher"
    at_registry = ["ip", "netns", "exec", "registry"]
    run(*at_registry, options.build / "berth-pull", "--site", site, "--store", store, "--quiet", name,
        stdout=subprocess.DEVNULL)
    sizes = [layer.stat().st_size for layer in (store / "layers").iterdir()]
    count = sum(-(-size // 2**20) for size in sizes)
    runs = random.sample(range(count // 3), max(1, int(options.part * count / 3)))
    profile = [3 * one + piece for one in runs for piece in range(3)]
    (store / "images" / digest[7:] / "profile").write_bytes(struct.pack(f"<{len(profile)}I", *profile))
    run(*at_registry, options.build / "berth-pull", "publish", "--site", site, "--store", store, "--quiet", "--sign",
        folder / "signer.pem", name, stdout=subprocess.DEVNULL)
    return site, profile, sum(sizes)


class Tracker:
    def __init__(self, build, nodes):
        self.secret = secrets.token_hex(16)
        listening = socket.socket(socket.AF_INET)
        listening.bind((BRIDGE, 0))
        listening.listen(512)
        self.port = listening.getsockname()[1]
        self.process = subprocess.Popen([build / "berth-pull", "agree", str(nodes)], stdin=listening.fileno(),
                                        env={"BERTH_AGREE_SECRET": self.secret, "PATH": os.environ["PATH"]})

    def place(self, node, rank):
        return f"{BRIDGE} {self.port} {self.secret} {node} {rank}\n"


class Node:
    def __init__(self, number, link, is_slow, folder):
        self.number, self.link, self.is_slow = number, link, is_slow
        self.home = folder / f"node{number}"
        self.home.mkdir()
        give_to_user(self.home)
        self.process, self.seconds, self.text, self.cpu = None, None, "", 0.0
        self.killed, self.was_owner, self.whole, self.reader = False, False, None, None

    def start(self, options, image, tracker):
        words = ["env", "-i", f"HOME={self.home}", f"TMPDIR={self.home}", options.build / "berth-pull",
                 "--plain-http", f"{REGISTRY}:5000", "--store", self.home / "store", "--report"]
        words += [] if options.alone else ["--share"]
        if options.early:
            words += ["--early", "--prove-later", "--site", options.site]
        self.start_time = time.monotonic()
        self.output = open(self.home / "report", "w+")
        self.process = self.link.start(as_user(words + [image]), stdin=subprocess.PIPE, stdout=self.output)
        if not options.alone:
            self.process.stdin.write(tracker.place(f"node{self.number}", self.number).encode())
        self.process.stdin.close()
        if options.early:
            digest = image.split("@")[1]
            self.reader = subprocess.Popen(as_user(
                [options.build / "tests/read_profile", self.home / "store", digest, *options.profile]))

    def is_asking_the_registry(self):
        address = struct.pack("<I", *struct.unpack(">I", socket.inet_aton(REGISTRY))).hex().upper() + f":{5000:04X}"
        try:
            rows = [line.split() for line in open(f"/proc/{self.process.pid}/net/tcp")]
        except OSError:  # it has just ended
            return False
        return any(row[2:4] == [address, "01"] for row in rows)  # 01: the connection stands

    def kill(self):
        self.killed, self.was_owner = True, self.is_asking_the_registry()
        self.process.send_signal(signal.SIGKILL)
        if self.reader:
            self.reader.kill()

    def look(self, options):
        """Notes when the image is here, or what its start reads."""
        if options.early:
            if self.seconds is None and self.reader.poll() == 0:
                self.seconds = time.monotonic() - self.start_time
            if self.whole is None and list(self.home.glob("store/images/*")):
                self.whole = time.monotonic() - self.start_time
        elif self.seconds is None and os.fstat(self.output.fileno()).st_size > len(self.text):
            self.output.seek(0)
            self.text = self.output.read()
            if "\nimage sha256:" in "\n" + self.text:
                self.seconds = time.monotonic() - self.start_time
        if self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu = usage.ru_utime + usage.ru_stime
        reads = self.reader is not None and self.reader.poll() is None
        return self.process.returncode is not None and not reads


class Trace:
    """Bytes on the links, once a second."""

    def __init__(self, nodes):
        self.names = ["v0"] + [f"v{node.number + 1}" for node in nodes]
        self.before, self.last, self.rows = self.read(), time.monotonic(), []

    def read(self):
        lines = (line.split(":") for line in open("/proc/self/net/dev") if ":" in line)
        numbers = {name.strip(): words.split() for name, words in lines}
        # What the host's end receives, its node has sent.
        return {name: [int(numbers[name][0]), int(numbers[name][8])] for name in self.names}

    def look(self):
        now = time.monotonic()
        if now - self.last < 1:
            return
        read = self.read()
        sent, got = ([(read[name][way] - self.before[name][way]) / (now - self.last) / 1e6 for name in self.names]
                     for way in (0, 1))
        mean_sent, mean_got = (sum(rates[1:]) / len(rates[1:]) for rates in (sent, got))
        self.rows.append(f"registry {sent[0]:6.2f} MB/s; nodes send {mean_sent:6.2f} (most {max(sent[1:]):.2f}), "
                         f"get {mean_got:6.2f} (least {min(got[1:]):.2f})")
        self.before, self.last = read, now


def cpu_of(link, words):
    """CPU seconds of a command on a node."""
    pid, status, usage = os.wait4(link.start(words, stdout=subprocess.DEVNULL).pid, 0)
    if status != 0:
        raise SystemExit(f"{words[0]} failed")
    return usage.ru_utime + usage.ru_stime


def curl_cpu(registry, link, folder):
    """CPU seconds of a node that gets the image's bytes by curl over TLS 1.3 into a file, and of their SHA-256."""
    served = folder / "served"
    served.mkdir()
    with open(served / "bytes", "wb") as out:
        for blob in (folder / "layout/blobs/sha256").iterdir():
            out.write(blob.read_bytes())
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=lab",
        "-keyout", folder / "key.pem", "-out", folder / "cert.pem", stderr=subprocess.DEVNULL)
    server = registry.start(["openssl", "s_server", "-quiet", "-WWW", "-tls1_3", "-ciphersuites",
                             "TLS_AES_128_GCM_SHA256", "-accept", "5443", "-cert", folder / "cert.pem", "-key",
                             folder / "key.pem"], cwd=served, stderr=subprocess.DEVNULL)
    time.sleep(1)
    got = folder / "got"
    address = f"https://{registry.address}:5443/bytes"
    used = cpu_of(link, ["curl", "--silent", "--insecure", "--fail", "-o", got, address])
    used += cpu_of(link, ["sha256sum", got])
    server.kill()
    return used


def verify(options, node):
    words = as_user([options.build / "berth-pull", "verify", "--store", node.home / "store"])
    return subprocess.run(words, env={"HOME": str(node.home)}, capture_output=True, text=True)


def copy_programs(options, folder):
    """To where an ordinary user reaches them, wherever the checkout is."""
    out = folder / "programs"
    (out / "tests").mkdir(parents=True)
    for name in ["berth-pull"] + (["tests/read_profile"] if options.early else []):
        shutil.copy(Path(options.build) / name, out / name)
    return out


def inside(options):
    folder = Path(options.inside)
    options.build = copy_programs(options, folder)
    make_bridge()
    registry_link = Link("registry", 0, options.registry_rate or options.rate, options.mtu, delay=options.delay)
    registry = start_registry(registry_link, folder)
    digest = make_image(folder, options.megabytes, options.layers, options.seed)
    # By the registry's own end of the link, which has no limit.
    run("ip", "netns", "exec", "registry", "skopeo", "copy", "--quiet", "--preserve-digests", "--dest-tls-verify=false",
        f"oci:{folder}/layout", "docker://127.0.0.1:5000/lab:1")
    stored = sum(blob.stat().st_size for blob in (folder / "layout/blobs/sha256").iterdir())
    if options.early:
        options.site, options.profile, stored = publish(options, folder, digest)
    time.sleep(1)
    log_start = (folder / "registry.log").stat().st_size
    slow = set(range(options.slow) if options.slow_owners else range(options.nodes - options.slow, options.nodes))
    says = folder / "speed"
    says.write_text("2500\n")
    known = slow if options.slow_known else set()
    racks = [make_rack(number, options.mtu, options.uplink) for number in range(options.racks)] or ["lab"]
    nodes = []
    for number in range(options.nodes):
        rate = options.rate / (4 if number in slow else 1)
        rack = racks[number * len(racks) // options.nodes]
        link = Link(f"n{number}", number + 1, rate, options.mtu, rack, says if number in known else None)
        nodes.append(Node(number, link, number in slow, folder))
    links = [registry_link] + [node.link for node in nodes]
    for link in links:
        link.meet(links)
        link.lose(options.loss)
    halves = [{node.link for node in nodes if node.number % 2 == side} for side in (0, 1)]
    if options.before:
        return late_node(options, nodes, Tracker(options.build, 3), f"{REGISTRY}:5000/lab@{digest}")
    for node in random.sample(nodes, options.closed):
        node.link.nft("add table inet lab; add chain inet lab in { type filter hook input priority 0; policy accept; "
                      "}; add rule inet lab in ct state new tcp dport 1024-65535 drop")
    tracker = None if options.alone else Tracker(options.build, options.nodes)
    image = f"{REGISTRY}:5000/lab@{digest}"
    before = busy()
    start = time.monotonic()
    late = set(random.sample(range(options.nodes), options.late))
    for node in nodes:
        if node.number not in late:
            node.start(options, image, tracker)
    ideal = stored / (options.rate * 1e6 / 8)
    trace = Trace(nodes)
    owners_to_kill = options.owners
    part_at = [0.2 * ideal, 0.2 * ideal + options.partition] if options.partition else []
    kill_at = sorted(random.uniform(0.05, 1.0) * ideal for _ in range(options.kill))
    done, until_ready = [], None
    limit = 60 + 20 * ideal * (options.nodes if options.alone else 1)
    while len(done) < len(nodes):
        now = time.monotonic() - start
        if late and now > 2:
            for number in sorted(late):
                nodes[number].start(options, image, tracker)
            late = set()
        while part_at and now > part_at[0]:
            part_at.pop(0)
            for side in (0, 1):
                for link in halves[side]:
                    link.part_from(halves[1 - side] if part_at else [])
        while kill_at and now > kill_at[0]:
            kill_at.pop(0)
            alive = [node for node in nodes if node.process and node.process.returncode is None and not node.killed]
            owners = [node for node in alive if node.is_asking_the_registry()] if owners_to_kill else []
            if alive:
                random.choice(owners or alive).kill()
                owners_to_kill -= 1 if owners else 0
        done = [node for node in nodes if node.process and node.look(options)]
        if until_ready is None and all(node.seconds is not None for node in nodes):
            until_ready = [after - start for after, start in zip(busy(), before)]
        trace.look()
        if now > limit:
            break
        # A hundredth of S/B is fine enough, and to look takes a processor of its own where there are many nodes.
        time.sleep(min(max(0.02, ideal / 500), 0.2))
    # With --early the times are of when the nodes were ready.
    used, all_time = options.early and until_ready or [after - start for after, start in zip(busy(), before)]
    for second, row in enumerate(trace.rows if options.trace else [], 1):
        print(f"{second:4} s: {row}")
    if tracker:
        tracker.process.kill()
    curl = curl_cpu(registry_link, nodes[-1].link, folder) if options.curl else None
    result = report(options, nodes, stored, ideal, blob_requests(folder, log_start), used / all_time, curl)
    registry.kill()
    return result


def wait_for_image(options, node, others, limit):
    """The seconds until the node has the image; None: it had none in that time."""
    start = time.monotonic()
    while node.seconds is None and time.monotonic() - start < limit:
        for one in [node] + others:
            one.look(options)
        time.sleep(0.1)
    return None if node.seconds is None else time.monotonic() - start


def late_node(options, nodes, tracker, image):
    first, second, third = nodes
    fate, other_fate = options.before.split(",")
    for node in (first, second):
        node.start(options, image, tracker)
    time.sleep(1.5)
    if fate != "slow":
        first.process.send_signal({"stopped": signal.SIGSTOP, "killed": signal.SIGKILL}[fate])
    whole = wait_for_image(options, second, [first], 150)
    if other_fate != "alive":
        second.process.send_signal({"stopped": signal.SIGSTOP, "gone": signal.SIGKILL}[other_fate])
    third.start(options, image, tracker)
    seconds = wait_for_image(options, third, [first, second], 100)
    bound = 25 + (60 if other_fate == "alive" or fate == "slow" else 20)
    print(f"the second node has the image {whole and round(whole + 1.5, 1)} s after its start, the third one "
          f"{seconds and round(seconds, 1)} s after its own; the bound is {bound} s")
    for process in [node.process for node in nodes] + [tracker.process]:
        process.kill()
    good = whole and seconds and seconds <= bound and verify(options, third).returncode == 0
    if not good or options.show:
        for node in nodes:
            print(f"== node {node.number}\n{Path(node.home / 'report').read_text()}")
    return 0 if good else 1


def blob_size(options, digest):
    blobs = Path(options.inside) / "registry/docker/registry/v2/blobs/sha256"
    return (blobs / digest[7:9] / digest[7:] / "data").stat().st_size


def show_requests(options, nodes, requests):
    by_address = {node.link.address: node for node in nodes}
    for digest, those in sorted(requests.items(), key=lambda it: -len(it[1])):
        print(f"== {len(those)} requests for {digest[:19]}, {blob_size(options, digest)} bytes")
        for address, when, sent in those:
            node = by_address.get(address)
            print(f"   node {node.number if node else address}{', killed' if node and node.killed else ''}: "
                  f"{sent} bytes, answered at {when}")


def report(options, nodes, stored, ideal, requests, cpu_share, curl):
    survivors = [node for node in nodes if not node.killed]
    # Those who asked for a layer: what is smaller is the image's configuration.
    owners = {address for digest, those in requests.items() if blob_size(options, digest) >= 2**16
              for address, _, _ in those}
    most_requests = max(map(len, requests.values()), default=0)
    receivers = sorted(node.cpu for node in survivors if node.link.address not in owners)
    owners_killed = sum(node.killed and (node.was_owner or node.link.address in owners) for node in nodes)
    times = sorted(node.seconds for node in survivors if node.seconds is not None)
    failed = [node for node in survivors if node.seconds is None or node.process.returncode not in (0,)]
    damaged = [node for node in survivors if node.seconds is not None and verify(options, node).returncode != 0]
    at = lambda part: times[min(len(times) - 1, int(part * len(times)))] if times else float("nan")  # noqa: E731
    result = {
        "nodes": options.nodes, "stored_bytes": stored, "ideal_seconds": round(ideal, 2),
        "p50": round(at(0.5) / ideal, 3), "p99": round(at(0.99) / ideal, 3), "killed": options.kill,
        "owners_killed": owners_killed,
        "most_requests_a_blob": most_requests, "blob_requests": sum(map(len, requests.values())),
        "blobs": len(requests), "cpu_seconds_a_node": round(sum(node.cpu for node in survivors) / len(survivors), 2),
        # The median of those that got all from other nodes.
        "cpu_seconds_a_receiver": round(receivers[len(receivers) // 2], 2) if receivers else None,
        "cpu": round(cpu_share, 2), "failed": [node.number for node in failed],
        "damaged": [node.number for node in damaged],
    }
    if options.early:
        wholes = sorted(node.whole for node in survivors if node.whole is not None)
        result["p50_seconds"], result["p99_seconds"] = round(at(0.5), 2), round(at(0.99), 2)
        result["whole_seconds"] = round(wholes[len(wholes) // 2], 2) if wholes else None
    if curl and receivers:
        result["curl_cpu_seconds"] = round(curl, 2)
        result["cpu_ratio"] = round(result["cpu_seconds_a_receiver"] / curl, 2)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:24}{value}")
    # With --early each node asks for parts; a node that others do not reach brings a layer for itself alone.
    once = not (options.alone or options.early or options.closed or options.partition)
    slow_owners = 0 if options.slow_known else sum(node.is_slow and node.link.address in owners for node in nodes)
    asked_too_often = once and most_requests > 1 + owners_killed + slow_owners
    if options.show or asked_too_often:
        show_requests(options, nodes, requests)
    for node in nodes if options.show else []:
        print(f"== node {node.number}, {node.seconds} s\n{node.text}")
    for node in failed:
        print(f"node {node.number}: exit code {node.process.returncode}: {node.text[-600:]}", file=sys.stderr)
    if asked_too_often:
        print(f"a blob was asked for {most_requests} times", file=sys.stderr)
    if failed or damaged or asked_too_often:
        return 1
    return 2 if cpu_share > 0.7 else 0


if __name__ == "__main__":
    options = arguments()
    in_namespaces(__file__, lambda: inside(options))
