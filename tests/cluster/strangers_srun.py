#!/usr/bin/env python3
"""How long `srun -N2` of an image that no node has takes with share.enabled, while a stranger who has a processor to
itself goes for every port at which berth-pull listens, srun's tracker and the nodes' share ports.

    strangers_srun.py [--box FOLDER] [--image IMAGE] [--starts N] [--held N] [--files N] [--stranger NAME]...
    strangers_srun.py --only NAME       the stranger alone, until it is killed

The box is up (scripts/slurm-in-a-box) with share.enabled in its site file; call as root. With "busy" the stranger only
computes: what it takes by having a processor is no part of what it does to the ports, and the others are compared with
that. Prints median and longest of the starts in seconds, the ratio of the medians to "busy", and how many connections
the stranger made in a start. Needs two processors."""

import argparse
import atexit
import glob
import multiprocessing
import os
import resource
import socket
import subprocess
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--box", default=os.environ.get("BERTH_BOX_DIR", "/var/tmp/berth-box"))
    parser.add_argument("--image", default=f"127.0.0.1:{os.environ.get('BERTH_BOX_REGISTRY_PORT', '5000')}/debian:12")
    parser.add_argument("--starts", type=int, default=9)
    parser.add_argument("--held", type=int, default=2000, help="connections that are silent or dripping")
    parser.add_argument("--files", type=int, default=0, help="open files of the tracker and of the nodes' pulls")
    parser.add_argument("--stranger", action="append", help="of none, busy, lines, connects, silent, dripping, tls")
    parser.add_argument("--only", help="one of these, without a start")
    return parser.parse_args()


def listening_ports():
    """Of all processes of the program berth-pull."""
    inodes = set()
    for process in glob.glob("/proc/[0-9]*"):
        try:
            if os.path.basename(os.readlink(f"{process}/exe")) != "berth-pull":
                continue
            for file in os.listdir(f"{process}/fd"):
                target = os.readlink(f"{process}/fd/{file}")
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
        except OSError:
            continue
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in list(lines)[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:
                    ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return sorted(ports)


class Ports:
    """Looked for some times a second."""
    def __init__(self):
        self.looked, self.ports = 0.0, []

    def get(self):
        if time.monotonic() - self.looked > 0.1:
            self.looked, self.ports = time.monotonic(), listening_ports()
        return self.ports


made = multiprocessing.Value("l", 0, lock=False)


def connected(port):
    try:
        out = socket.create_connection(("127.0.0.1", port), 2)
    except OSError:
        return None
    made.value += 1
    return out


def compute():
    while True:
        pass


def send(data):
    ports = Ports()
    while True:
        for port in ports.get():
            with connected(port) or socket.socket() as connection:
                try:
                    connection.sendall(data)
                except OSError:
                    pass


def hold(count, drip):
    """Those that are closed are made anew; with `drip` each says a byte of a first message of TLS twice a second."""
    ports, held = Ports(), []
    first = b"\x16\x03\x01\x0f\x00" + b"x" * 4000
    while True:
        there = ports.get()
        for port in there:
            for _ in range(min(200, count - len(held))):
                connection = connected(port)
                if connection:
                    connection.setblocking(False)
                    held.append([connection, 0])
        for one in held:
            try:
                if drip:
                    one[0].send(first[one[1]:one[1] + 1])
                    one[1] += 1
                elif not one[0].recv(1):
                    raise OSError
            except BlockingIOError:
                pass
            except OSError:
                one[0].close()
        held = [one for one in held if one[0].fileno() >= 0]
        time.sleep(0.5 if drip else 0.1)


STRANGERS = {"none": None, "busy": (compute,), "lines": (send, b"berth-share-1 x y\n" * 4000),
             "connects": (send, b"x\n"), "tls": (send, b"\x16\x03\x01\x00\x04xxxx")}


def stranger(work, *its):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    work(*its)


def enter(box, user, *words):
    return subprocess.run([f"{box}/lib/enter_box", "login", box, user, "", *words], capture_output=True, text=True,
                          check=False)


WORDS = "/etc/slurm/plugstack.conf.d/berth.conf"


def limit_files(box, files):
    """Of those who share: srun's tracker and the nodes' pulls, which are started by the helper."""
    enter(box, "root", "bash", "-c", f"cp {WORDS} {WORDS}.kept; printf '#!/bin/sh\nulimit -n {files}\n"
          "exec /usr/bin/berth \"$@\"\n' > /usr/local/bin/few-files; chmod 755 /usr/local/bin/few-files; "
          f"echo 'required spank_berth.so helper=/usr/local/bin/few-files' > {WORDS}")


def unlimit_files(box):
    enter(box, "root", "bash", "-c",
          f"[ ! -e {WORDS}.kept ] || mv {WORDS}.kept {WORDS}; rm -f /usr/local/bin/few-files")


def start(options):
    """Seconds of one start from nothing."""
    enter(options.box, "root", "bash", "-c",
          f"rm -rf {options.box}/nodes/*/store/*")
    began = time.monotonic()
    done = enter(options.box, "alice", "srun", "-N2", f"--container-image={options.image}", "cat", "/srv/hello")
    took = time.monotonic() - began
    if done.returncode or done.stdout.count("hello") != 2:
        raise SystemExit(f"a start failed: {done.returncode} {done.stdout}{done.stderr}")
    if "not shared" in done.stderr:
        print(done.stderr.strip(), flush=True)
    return took


def main():
    options = arguments()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    strangers = STRANGERS | {"silent": (hold, options.held, False), "dripping": (hold, options.held, True)}
    if options.only:
        stranger(*strangers[options.only])
    names = options.stranger or ["none", "busy", "lines", "connects", "tls", "silent", "dripping"]
    if options.files:
        limit_files(options.box, options.files)
        atexit.register(unlimit_files, options.box)
    times, connections = {name: [] for name in names}, dict.fromkeys(names, 0)
    # In turns: a machine that is busy with something else is so for all of them.
    for name in names * options.starts:
        made.value, its = 0, strangers[name]
        process = its and multiprocessing.Process(target=stranger, args=its, daemon=True)
        if process:
            process.start()
        times[name].append(start(options))
        connections[name] += made.value
        if process:
            process.kill()
            process.join()
    for name in names:
        median = sorted(times[name])[options.starts // 2]
        ratio = f", {median / sorted(times['busy'])[options.starts // 2]:.2f}" if "busy" in times else ""
        print(f"{name:10}{median:8.2f} s, at most {max(times[name]):.2f} s{ratio}, "
              f"{connections[name] // options.starts} connections a start", flush=True)


if __name__ == "__main__":
    main()
