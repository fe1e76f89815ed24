#!/usr/bin/env python3
"""Start latency of `berth run` beside its peers, as medians and ratios of one run.

Runs as the caller (not root: user namespaces are what is measured), in turns A B C A B C ..., so that a slow moment hits all alike.
usage: start.py BERTH INSIDE [RUNS]; INSIDE is the static program build/tests/inside, the only file of the image.
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def make_image(folder, program):
    """A directory with one static program and the squashfs file of it."""
    root = os.path.join(folder, "root")
    for name in ("bin", "proc", "dev", "tmp", "etc", "sys", "run", "root", "home"):
        os.makedirs(os.path.join(root, name))
    shutil.copy(program, os.path.join(root, "bin", "inside"))
    image = os.path.join(folder, "image.sqsh")
    subprocess.run(["mksquashfs", root, image, "-quiet", "-no-progress", "-comp", "zstd"], check=True, stdout=subprocess.DEVNULL)
    return root, image


def contestants(berth, program, root, image):
    """Name -> command; only what is installed."""
    out = {
        "host": [program, "true"],
        "berth run": [berth, "run", image, "/bin/inside", "true"],
    }
    if shutil.which("unshare"):
        out["unshare -Urm"] = ["unshare", "-Urm", program, "true"]
    if shutil.which("bwrap"):
        out["bwrap"] = ["bwrap", "--bind", root, "/", "/bin/inside", "true"]
    if shutil.which("ch-run"):
        out["ch-run"] = ["ch-run", root, "--", "/bin/inside", "true"]
    return out


def milliseconds(command):
    start = time.perf_counter()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    elapsed = (time.perf_counter() - start) * 1000
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return elapsed


def main():
    berth, program = (os.path.abspath(path) for path in sys.argv[1:3])
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 30
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as folder:
        commands = contestants(berth, program, *make_image(folder, program))
        for command in commands.values():
            milliseconds(command)
        times = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                times[name].append(milliseconds(command))
    host = statistics.median(times["host"])
    ours = statistics.median(times["berth run"])
    print(f"{'':16}{'median ms':>10}{'min':>8}{'max':>8}{'over host':>11}{'berth / it':>12}   ({runs} runs in turns)")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:16}{median:10.2f}{min(values):8.2f}{max(values):8.2f}{median - host:11.2f}{ours / median:12.2f}")


if __name__ == "__main__":
    main()
