#!/usr/bin/env python3
"""What an import of Python's frameworks costs in a new container: beside the same root as a directory of the node, the
kernel's squashfs and squashfuse_ll, each under bwrap. "store" and "file" are new containers of an image of the store
and of one .sqsh whose files are kept unpacked by the one start before, "ahead" the same without these files, "first"
the first of them where nobody has read the image before, "unguessed" the same without guesses, "plain" without reading
ahead and learning, "again" an import that follows another in its container.

usage: import.py BUILD [--turns N] [--rows WORDS] [--small] [--load SHARE] [--cache DIR] [--json FILE] [--at-once N]
       [--no-requests]; as root (the kernel's squashfs, debootstrap and tracefs need it), all else runs as --user.

The root is made of Debian's packages once and kept: debootstrap, then python3-torch and the others (--small: without
torch). All files are in the page cache. The rows take turns. Of each: wall time of the program from its fork on, its
CPU seconds, major faults and voluntary switches as getrusage(2) has them, and the CPU seconds and switches of all else
that the row consists of, a file server above all. A turn in which somebody else used more than --load of the machine's
CPUs is void and taken again, --tries times at most; the last column says how many stayed void. Then the requests of one
import by kind, as the kernel sends them (trace event fuse_request_send), and the server's memory 10 s after its last
read.
"""
import argparse
import collections
import contextlib
import json
import os
import pwd
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import ngc_image

PACKAGES = ["python3-numpy", "python3-scipy", "python3-pandas", "python3-sklearn", "python3-matplotlib"]
IMPORTS = "numpy, scipy.optimize, pandas, sklearn.ensemble, matplotlib.pyplot"
# The last line: seconds since the fork, of the CPU; major faults; voluntary switches.
PROGRAM = """
import resource, time, {imports}
now, used = time.clock_gettime(time.CLOCK_BOOTTIME), resource.getrusage(resource.RUSAGE_SELF)
start = int(open('/proc/self/stat').read().rpartition(')')[2].split()[19]) / 100
print(now - start, used.ru_utime + used.ru_stime, used.ru_majflt, used.ru_nvcsw, flush=True)
"""
TRACING = "/sys/kernel/tracing"


def run(command, **more):
    return subprocess.run(command, check=True, **more)


def make_root(options):
    root = os.path.join(options.cache, "root-small" if options.small else "root")
    if os.path.exists(root + ".ready"):
        return root
    shutil.rmtree(root, ignore_errors=True)
    run(["debootstrap", "--variant=minbase", "bookworm", root], stdout=sys.stderr)
    packages = PACKAGES + ([] if options.small else ["python3-torch"])
    run(["mount", "-t", "proc", "proc", root + "/proc"])
    try:
        run(["chroot", root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "install", "-y",
             "--no-install-recommends", "-o", "Dpkg::Options::=--force-unsafe-io", *packages], stdout=sys.stderr)
        run(["chroot", root, "apt-get", "clean"])
    finally:
        run(["umount", root + "/proc"])
    with open(root + ".ready", "w", encoding="ascii"):
        return root


def as_user(options, command):
    group = str(pwd.getpwnam(options.user).pw_gid)
    return ["setpriv", "--reuid", options.user, "--regid", group, "--clear-groups", "--", "env",
            "HOME=/nonexistent", "XDG_CACHE_HOME=/tmp",
            "MPLCONFIGDIR=/tmp/matplotlib", *command]


def make_layout(root, layout):
    """An image with the root as its one layer."""
    blobs = layout + "/blobs/sha256"
    if os.path.exists(layout + "/index.json"):
        return
    shutil.rmtree(layout, ignore_errors=True)
    os.makedirs(blobs)
    run(["tar", "--numeric-owner", "--exclude=./dev/*", "--exclude=./var/cache/*", "-C", root, "-cf", blobs + "/tar",
         "."])
    diff = ngc_image.file_digest(blobs + "/tar")
    run(f"gzip -1 < {blobs}/tar > {blobs}/layer && rm {blobs}/tar", shell=True)
    layer = ngc_image.file_digest(blobs + "/layer")
    os.rename(blobs + "/layer", f"{blobs}/{layer}")
    ngc_image.write_image(layout, [(layer, os.path.getsize(f"{blobs}/{layer}"), diff)], b"import")


def prepare(options):
    """The root in every form: an image, that image in a store, and one file."""
    root = make_root(options)
    work = os.path.join(options.cache, "work-small" if options.small else "work")
    os.makedirs(work, exist_ok=True)
    make_layout(root, work + "/layout")
    if not os.path.exists(work + "/flat.sqsh"):
        shutil.chown(work, options.user)
        run(as_user(options, [options.build + "/berth-pull", "import", "--store", work + "/store", "-o",
                              work + "/flat.sqsh", f"oci:{work}/layout"]))
    return root, work


def ticks_of(pid):
    """CPU seconds and voluntary switches of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rpartition(")")[2].split()
    switches = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
            switches += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", file.read(), re.M).group(1))
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"), switches


def machine_busy():
    """CPU seconds of everything since the boot, the hypervisor's others among it."""
    with open("/proc/stat", encoding="ascii") as file:
        words = [int(word) for word in file.readline().split()[1:9]]
    return (sum(words) - words[3] - words[4]) / os.sysconf("SC_CLK_TCK")


def is_mounted(place):
    """Also for root, who may not look into a mount of another user's."""
    with open("/proc/self/mountinfo", encoding="ascii") as file:
        return any(line.split()[4] == place for line in file)


class Rows:
    """Name -> a context that gives the command that runs a shell line there, and the pid of a server, or None."""

    def __init__(self, options, root, work):
        self.options, self.root, self.work = options, root, work
        self.all = {"node": self.node, "again": self.store, "store": self.store, "ahead": self.ahead,
                    "first": self.first, "unguessed": self.unguessed, "plain": self.plain, "file": self.file,
                    "squashfuse": self.squashfuse, "kernel": self.kernel}

    def bwrap(self, root):
        return as_user(self.options, ["bwrap", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs",
                                      "/tmp", "/bin/sh", "-c"])

    def berth(self, image, *more):
        settings = [f"BERTH_STORE_PATH={self.work}/store", *more, *self.options.set]
        return as_user(self.options, [*settings, self.options.build + "/berth", "run", image, "/bin/sh", "-c"])

    @contextlib.contextmanager
    def node(self):
        yield self.bwrap(self.root), None

    @contextlib.contextmanager
    def store(self):
        yield self.berth(f"oci:{self.work}/layout"), None

    @contextlib.contextmanager
    def ahead(self):
        yield self.berth(f"oci:{self.work}/layout", "BERTH_MOUNT_HOT_IMAGE_SIZE=0"), None

    @contextlib.contextmanager
    def first(self, *more):
        known, aside = self.work + "/store/prefetch", self.work + "/prefetch.aside"
        os.rename(known, aside)
        try:
            yield self.berth(f"oci:{self.work}/layout", *more), None
        finally:
            shutil.rmtree(known, ignore_errors=True)
            os.rename(aside, known)

    def unguessed(self):
        return self.first("BERTH_MOUNT_PREFETCH_GUESS=false")

    @contextlib.contextmanager
    def plain(self):
        yield self.berth(f"oci:{self.work}/layout", "BERTH_MOUNT_PREFETCH=false"), None

    @contextlib.contextmanager
    def file(self):
        yield self.berth(self.work + "/flat.sqsh"), None

    @contextlib.contextmanager
    def squashfuse(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            shutil.chown(place, self.options.user)
            server = subprocess.Popen(as_user(self.options, ["squashfuse_ll", "-f", self.work + "/flat.sqsh", place]))
            try:
                while not is_mounted(place):
                    time.sleep(0.01)
                    assert server.poll() is None
                yield self.bwrap(place), server.pid
            finally:
                run(as_user(self.options, ["fusermount3", "-u", place]))
                server.wait()

    @contextlib.contextmanager
    def kernel(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            os.chmod(place, 0o755)
            run(["mount", "-t", "squashfs", "-o", "loop,ro", self.work + "/flat.sqsh", place])
            try:
                yield self.bwrap(place), None
            finally:
                run(["umount", place])


def start(command):
    out, into = os.pipe()
    child = subprocess.Popen(command, stdout=into, stdin=subprocess.DEVNULL)
    os.close(into)
    return child, out


def finish(child, out):
    with os.fdopen(out, encoding="ascii") as lines:
        said = lines.read().splitlines()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, (child.args, child.returncode)
    return said, used


def program(options):
    imports = IMPORTS if options.small else "torch, " + IMPORTS
    return f"/usr/bin/python3 -B -c \"{PROGRAM.format(imports=imports)}\""


def measure(rows, name, options):
    """A turn: figures, and the share of the machine that others used meanwhile."""
    line = program(options)
    with rows.all[name]() as (command, server):
        before, busy, since = (ticks_of(server) if server else (0, 0)), machine_busy(), time.monotonic()
        said, used = finish(*start(command + [line + "; " + line if name == "again" else line + "; true"]))
        elapsed, busy = time.monotonic() - since, machine_busy() - busy
        after = ticks_of(server) if server else (0, 0)
    wall, cpu, faults, switches = (float(word) for word in said[-1].split())
    all_cpu = used.ru_utime + used.ru_stime + after[0] - before[0]
    others = max(0, busy - all_cpu) / (elapsed * os.cpu_count())
    return {"wall": wall, "cpu": cpu, "faults": faults, "switches": switches, "all cpu": all_cpu,
            "server switches": used.ru_nvcsw + after[1] - before[1] - switches}, others


def learn(rows, names, options):
    """A start after which files are kept unpacked: it waits until they are."""
    for name in set(names) & {"store", "file"}:
        with rows.all[name]() as (command, _):
            finish(*start(command + [program(options) + "; sleep 20"]))


def turns(rows, names, options):
    learn(rows, names, options)
    table, void = {name: [] for name in names}, dict.fromkeys(names, 0)
    for name in names:
        measure(rows, name, options)
    end = time.monotonic() + options.seconds
    for _ in range(options.turns):
        if time.monotonic() > end:
            break
        for name in names:
            for _ in range(options.tries):
                figures, others = measure(rows, name, options)
                if others <= options.load:
                    table[name].append(figures | {"others": others})
                    break
            else:
                void[name] += 1
    return table, void


def show(table, void):
    def middle(name, key):
        return statistics.median(turn[key] for turn in table[name])

    print(f"{'':12}{'wall s (quartiles)':>24}{'ratio':>7}{'CPU s':>7}{'with server':>12}{'ratio':>7}{'faults':>8}"
          f"{'switches':>10}{'of server':>10}{'turns':>7}{'void':>6}")
    for name, values in table.items():
        if not values:
            print(f"{name:12} void: {void[name]}")
            continue
        low, _, high = statistics.quantiles([turn["wall"] for turn in values], n=4) if len(values) > 1 else (0, 0, 0)
        ratios = [f"{middle(name, key) / middle('node', key):.2f}" if table.get("node") else "-"
                  for key in ("wall", "all cpu")]
        wall = f"{middle(name, 'wall'):.2f} ({low:.2f} to {high:.2f})"
        print(f"{name:12}{wall:>24}{ratios[0]:>7}{middle(name, 'cpu'):7.2f}{middle(name, 'all cpu'):12.2f}"
              f"{ratios[1]:>7}{middle(name, 'faults'):8.0f}{middle(name, 'switches'):10.0f}"
              f"{middle(name, 'server switches'):10.0f}{len(values):7}{void[name]:6}")


def at_once(rows, options):
    """CPU seconds of so many imports at a time."""
    total = {}
    for name in ("node", "ahead", "store"):
        with rows.all[name]() as (command, _):
            children = [start(command + [program(options) + "; true"]) for _ in range(options.at_once)]
            total[name] = 0
            for child in children:
                used = finish(*child)[1]
                total[name] += used.ru_utime + used.ru_stime
    print(f"\n{options.at_once} at once: CPU s {total['node']:.1f} on the node; in containers " +
          ", ".join(f"{total[name]:.1f} ({name}), {total[name] / total['node']:.2f} times"
                    for name in ("ahead", "store")))


@contextlib.contextmanager
def tracing(event):
    """A buffer of its own in which the kernel notes each `event`; gives its folder."""
    if not os.path.exists(TRACING + "/events"):
        run(["mount", "-t", "tracefs", "tracefs", TRACING])
    place = f"{TRACING}/instances/berth-import-{os.getpid()}"
    os.mkdir(place)

    def write(name, text):
        with open(f"{place}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    try:
        write("buffer_size_kb", "16384")
        write(f"events/{event}/enable", "1")
        yield place
    finally:
        write(f"events/{event}/enable", "0")
        os.rmdir(place)


def requests(rows, name, options):
    """Of one import: how many of each kind, on the connection that has most of them."""
    with rows.all[name]() as (command, _), tracing("fuse/fuse_request_send") as place:
        finish(*start(command + [program(options) + "; true"]))
        with open(place + "/trace", encoding="ascii", errors="replace") as file:
            found = re.findall(r"connection (\d+) req \d+ opcode \d+ \(FUSE_(\w+)\)", file.read())
    most = collections.Counter(connection for connection, _ in found).most_common(1)[0][0]
    counts = collections.Counter(kind.lower() for connection, kind in found if connection == most)
    print(f"{name}: requests {sum(counts.values())}: " +
          ", ".join(f"{kind} {count}" for kind, count in counts.most_common()))


def idle_memory(rows, options):
    """MB (PSS) of the server ten seconds after the last read."""
    with rows.all["store"]() as (command, _):
        child, out = start(command + [program(options) + "; echo done; sleep 60"])
        with os.fdopen(os.dup(out), encoding="ascii") as lines:
            while "done" not in lines.readline():
                pass
        os.close(out)
        time.sleep(10)
        with open(f"/proc/{child.pid}/smaps_rollup", encoding="ascii") as file:
            kilobytes = int(re.search(r"^Pss:\s*(\d+)", file.read(), re.M).group(1))
        child.terminate()
        child.wait()
    print(f"server, PSS 10 s after the last read: {kilobytes / 1024:.1f} MB")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build")
    options.add_argument("--turns", type=int, default=15)
    options.add_argument("--tries", type=int, default=4)
    options.add_argument("--seconds", type=float, default=3600, help="no turn begins later")
    options.add_argument("--rows", default="node,again,store,ahead,first,unguessed,plain,file,squashfuse,kernel")
    options.add_argument("--small", action="store_true")
    options.add_argument("--load", type=float, default=0.1)
    options.add_argument("--user", default="nobody")
    options.add_argument("--cache", default="/var/tmp/berth-import")
    options.add_argument("--set", action="append", default=[], metavar="BERTH_KEY=VALUE")
    options.add_argument("--at-once", type=int, default=8)
    options.add_argument("--no-requests", action="store_true")
    options.add_argument("--json")
    options = options.parse_args()
    options.build = os.path.abspath(options.build)
    os.makedirs(options.cache, exist_ok=True)
    os.umask(0o022)
    rows = Rows(options, *prepare(options))
    names = options.rows.split(",")
    if options.turns:
        table, void = turns(rows, names, options)
        others = [turn["others"] for values in table.values() for turn in values]
        print(f"{os.cpu_count()} CPUs, of which others used {statistics.median(others or [0]):.0%} (at most "
              f"{max(others, default=0):.0%}); a turn is void above {options.load:.0%}")
        show(table, void)
        if options.json:
            with open(options.json, "w", encoding="ascii") as file:
                json.dump(table, file, indent=1)
    if not options.no_requests:
        for name in set(names) & {"store", "ahead", "first", "plain", "file", "squashfuse"}:
            requests(rows, name, options)
    if "store" in names:
        idle_memory(rows, options)
    if options.at_once:
        at_once(rows, options)


if __name__ == "__main__":
    main()
