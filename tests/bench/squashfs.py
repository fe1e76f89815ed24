#!/usr/bin/env python3
"""Berth's own writer and reader of squashfs files beside libsquashfs' and squashfs-tools', on one CPU.

usage: squashfs.py BUILD FOLDER [--turns N]; as an ordinary user, who can read all of FOLDER; needs squashfs-tools-ng.

Writing: `berth import`, gensquashfs (libsquashfs' block processor) and mksquashfs pack FOLDER, with zstd at level 1 and
blocks of 128 KiB. Reading: a start with mount.engine = "unpack", rdsquashfs (libsquashfs' reader) and unsquashfs unpack
what gensquashfs made. All take turns on the first CPU, so that CPU time is what counts; the figures are medians, and
ratios to berth's. Memory is the largest of a process and what it starts.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def measured(command, environment):
    """Seconds of wall and CPU time, and MB."""
    begun = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"squashfs.py: {' '.join(command)}: {said.strip()}")
    return time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def rows_of(berth, folder, work):
    out, image, tree, store = (os.path.join(work, name) for name in ("out.sqsh", "image.sqsh", "tree", "store"))
    level = ["-b", "131072"]
    write = {
        "berth": [berth, "import", "-q", "--plain", "--force", "--compression", "zstd", "-o", out, folder],
        "libsquashfs": ["gensquashfs", "-q", "-D", folder, "-c", "zstd", "-X", "level=1", *level, "-j", "1", out],
        "squashfs-tools": ["mksquashfs", folder, out, "-quiet", "-no-progress", "-comp", "zstd",
                           "-Xcompression-level", "1", *level, "-processors", "1"],
    }
    read = {
        "berth": [berth, "run", image, "/nothing"],
        "libsquashfs": ["rdsquashfs", "-q", "-u", "/", "-p", tree, image],
        "squashfs-tools": ["unsquashfs", "-q", "-n", "-processors", "1", "-d", tree, image],
    }
    # There is no program in it: what it takes to say so is the start.
    read["berth"] = ["sh", "-c", '"$@" 2> /dev/null; test "$?" = 127', "sh", *read["berth"]]
    return {"write": (write, [out]), "read": (read, [tree, store])}, image, store


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("folder")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    work = tempfile.mkdtemp(prefix="berth-squashfs-", dir="/var/tmp")
    rows, image, store = rows_of(os.path.join(os.path.abspath(options.build), "berth"), options.folder, work)
    environment = {**os.environ, "BERTH_STORE_PATH": store, "BERTH_MOUNT_ENGINE": "unpack"}
    try:
        subprocess.run([*rows["write"][0]["libsquashfs"][:-1], image], check=True, stdout=subprocess.DEVNULL)
        for what, (contestants, made) in rows.items():
            seen = {name: [] for name in contestants}
            for _ in range(options.turns):
                for name, command in contestants.items():
                    for path in made:
                        remove(path)
                    seen[name].append(measured(command, environment))
            middle = {name: [statistics.median(one) for one in zip(*all_of)] for name, all_of in seen.items()}
            for name, (wall, cpu, memory) in middle.items():
                ratios = [value / own for value, own in zip((wall, cpu, memory), middle["berth"])]
                print(f"{what:6}{name:16}{wall:8.2f} s{cpu:8.2f} s of CPU{memory:8.0f} MB   "
                      f"to berth {ratios[0]:.2f} {ratios[1]:.2f} {ratios[2]:.2f}", flush=True)
    finally:
        remove(work)


if __name__ == "__main__":
    main()
