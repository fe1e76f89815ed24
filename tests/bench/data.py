#!/usr/bin/env python3
"""Many small files in one squashfs file: mounted in a container (--mount FILE:/data:squashfs), by squashfuse_ll, and as
a directory of the node's file system whose files and names are all in the page cache.

usage: data.py BUILD [--files N] [--turns N] [--load SHARE] [--cache DIR] [--json FILE]; as root, who drops to --user.

The files have 1 to 16 kB that can be packed to some 40%, in folders of 500. There are two squashfs files of them:
"tails", as mksquashfs makes it, with the ends of files packed together in blocks of 128 KiB, and "apart", made with
-no-fragments, in which each file is packed for itself. Both are in the page cache. Each turn is a fresh mount: `find`
over it, all files by a Python program in random order, each opened and read whole, and the same once more. "plain" is a
mount whose files are not read ahead. The rows take turns; medians. A turn in which somebody else used more than --load
of the CPUs is void and taken again. Then the server's memory: at most, and ten seconds after the last read.
"""
import argparse
import contextlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from importlib.machinery import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))
imports = SourceFileLoader("bench_import", HERE + "/import.py").load_module()
run, as_user, machine_busy = imports.run, imports.as_user, imports.machine_busy
WORKS = ["find", "read", "read again"]
FOLDER = 500
WORDS = [f"{word}{number}" for word in ("alpha", "weight", "label", "image", "token", "path") for number in range(300)]


def content(chance, size):
    """Words and numbers, as records of a data set have them."""
    out = []
    length = 0
    while length < size:
        out.append(f"{chance.choice(WORDS)}={chance.getrandbits(40):x};")
        length += len(out[-1])
    return "".join(out)[:size]


def prepare(options):
    """The files as a directory and as squashfs files, and the order in which they are read; made once and kept."""
    work = os.path.join(options.cache, f"data-{options.files}")
    if os.path.exists(work + "/ready"):
        return work
    shutil.rmtree(work, ignore_errors=True)
    chance, names = random.Random(58), []
    for number in range(options.files):
        name = f"{number // FOLDER:04}/{number:06}.txt"
        if number % FOLDER == 0:
            os.makedirs(f"{work}/directory/{number // FOLDER:04}")
        with open(f"{work}/directory/{name}", "w", encoding="ascii") as file:
            file.write(content(chance, chance.randint(1000, 16000)))
        names.append(name)
    chance.shuffle(names)
    with open(work + "/order", "w", encoding="ascii") as file:
        file.write("\n".join(names))
    for kind, more in (("tails", []), ("apart", ["-no-fragments"])):
        run(["mksquashfs", work + "/directory", f"{work}/{kind}.sqsh", "-noappend", "-quiet", "-no-progress", "-comp",
             "zstd", "-Xcompression-level", "3", "-all-root", *more])
    # The programs are the node's, which are mounted at /usr.
    os.makedirs(work + "/root/usr")
    for name in ("bin", "lib", "lib64"):
        os.symlink("usr/" + name, f"{work}/root/{name}")
    run(["mksquashfs", work + "/root", work + "/image.sqsh", "-noappend", "-quiet", "-no-progress", "-all-root"])
    with open(work + "/ready", "w", encoding="ascii"):
        return work


def is_mounted(place):
    """Also for root, who may not look into a mount of another user's."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return any(line.split()[4] == place for line in file)


class Rows:
    """Name -> a context that gives the words that run a program there, and the folder where the files are."""

    def __init__(self, options, work):
        self.options, self.work = options, work

    @contextlib.contextmanager
    def directory(self, _):
        yield as_user(self.options, []), self.work + "/directory"

    @contextlib.contextmanager
    def squashfuse(self, kind):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            shutil.chown(place, self.options.user)
            server = subprocess.Popen(as_user(self.options, ["squashfuse_ll", "-f", f"{self.work}/{kind}.sqsh", place]))
            try:
                while not is_mounted(place):
                    time.sleep(0.01)
                    assert server.poll() is None
                yield as_user(self.options, []), place
            finally:
                run(as_user(self.options, ["fusermount3", "-u", place]))
                server.wait()

    @contextlib.contextmanager
    def plain(self, kind):
        with self.berth(kind, "BERTH_MOUNT_PREFETCH_GUESS=false") as row:
            yield row

    @contextlib.contextmanager
    def berth(self, kind, *settings):
        words = [*settings, *self.options.set, self.options.build + "/berth", "run", "--mount", "/usr:/usr:ro",
                 "--mount", f"{HERE}:{HERE}:ro", "--mount", f"{self.work}/order:{self.work}/order:ro", "--mount",
                 f"{self.work}/{kind}.sqsh:/data:squashfs", self.work + "/image.sqsh"]
        yield as_user(self.options, words), "/data"

    def of(self, name):
        row, _, kind = name.partition(" ")
        return getattr(self, row)(kind)


def memory_of(pid):
    """MB: at most, and now."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        most = int(re.search(r"^VmHWM:\s*(\d+)", file.read(), re.M).group(1))
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        now = int(re.search(r"^Pss:\s*(\d+)", file.read(), re.M).group(1))
    return most / 1024, now / 1024


def program(rows, place, rest=()):
    return ["/usr/bin/python3", "-I", HERE + "/data_work.py", place, rows.work + "/order", *rest]


def measure(rows, name):
    """A turn: seconds of each work and of the start before them, and the share of the machine that others used."""
    with rows.of(name) as (command, place):
        busy, since = machine_busy(), time.monotonic()
        before = os.times()
        began = time.clock_gettime(time.CLOCK_BOOTTIME)
        child = subprocess.Popen(command + program(rows, place), stdout=subprocess.PIPE, text=True)
        said = child.communicate()[0]
        assert child.returncode == 0, name
        elapsed, busy, after = time.monotonic() - since, machine_busy() - busy, os.times()
    own = after.children_user + after.children_system - before.children_user - before.children_system
    figures = dict(zip(["start"] + WORKS, [float(word) for word in said.split()], strict=True))
    figures["start"] -= began
    # squashfuse_ll was started before.
    return figures, max(0, busy - own) / (elapsed * os.cpu_count()) if "squashfuse" not in name else 0.0


def server_memory(rows, name):
    with rows.of(name) as (command, place):
        child = subprocess.Popen(command + program(rows, place, ["stay"]), stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        time.sleep(10)
        most, now = memory_of(child.pid)
        child.terminate()
        child.wait()
    print(f"{name}: server's memory {most:.0f} MB at most, {now:.1f} MB (PSS) 10 s after the last read")


def show(table, void):
    def middle(name, key):
        return statistics.median(turn[key] for turn in table[name])

    print(f"{'':18}{'start s':>9}" + "".join(f"{work + ' s':>14}{'/ directory':>12}{'/ squashfuse':>13}"
                                              for work in WORKS) + f"{'turns':>7}{'void':>6}")
    for name in table:
        if not table[name]:
            print(f"{name:18} void: {void[name]}")
            continue
        kind = name.partition(" ")[2]
        line = f"{name:18}{middle(name, 'start'):9.3f}"
        for work in WORKS:
            value = middle(name, work)
            peer = "squashfuse " + kind
            line += f"{value:14.2f}{value / middle('directory', work):12.2f}"
            line += f"{value / middle(peer, work):13.2f}" if table.get(peer) else f"{'-':>13}"
        print(line + f"{len(table[name]):7}{void[name]:6}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build")
    options.add_argument("--files", type=int, default=200000)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--tries", type=int, default=3)
    options.add_argument("--rows", default=("directory,squashfuse apart,plain apart,berth apart,"
                                                    "squashfuse tails,plain tails,berth tails"))
    options.add_argument("--load", type=float, default=0.15)
    options.add_argument("--user", default="nobody")
    options.add_argument("--cache", default="/var/tmp/berth-bench")
    options.add_argument("--set", action="append", default=[], metavar="BERTH_KEY=VALUE")
    options.add_argument("--json")
    options = options.parse_args()
    options.build = os.path.abspath(options.build)
    work = prepare(options)
    rows, names = Rows(options, work), options.rows.split(",")
    for kind in ("tails", "apart"):
        run(["cat", f"{work}/{kind}.sqsh"], stdout=subprocess.DEVNULL)
    measure(rows, "directory")
    table, void = {name: [] for name in names}, dict.fromkeys(names, 0)
    print(f"load average {os.getloadavg()[0]:.2f}, {options.files} files", flush=True)
    for _ in range(options.turns):
        for name in names:
            for _ in range(options.tries):
                figures, others = measure(rows, name)
                print(f"  {name}: {figures}, others {others:.0%}", file=sys.stderr)
                if others <= options.load:
                    table[name].append(figures)
                    break
            else:
                void[name] += 1
    show(table, void)
    for name in names:
        if name.startswith(("berth", "plain")):
            server_memory(rows, name)
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
