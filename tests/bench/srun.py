#!/usr/bin/env python3
"""What a container adds to a step: `srun true` plain and contained in turns, in one allocation, with 1 and with 8 tasks
on the node; medians and differences.

usage, as an ordinary user where a Slurm with berth runs: salloc -N1 -n8 python3 srun.py IMAGE [RUNS]; IMAGE is in the
store of the node or can be pulled. It is asked for by its tag and, where `berth inspect` on the node tells it, by its
digest, of which no registry is asked.
"""
import json
import os
import statistics
import subprocess
import sys
import time


def once(command):
    start = time.perf_counter()
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    return (time.perf_counter() - start) * 1000


def by_digest(image):
    """The image's name with its digest; empty when the store does not tell."""
    told = subprocess.run(["srun", "-n1", "berth", "inspect", "--json", image], capture_output=True, text=True,
        check=False)
    digest = json.loads(told.stdout).get("digest", "") if told.returncode == 0 else ""
    host, _, name = image.rpartition("/")
    return f"{host}/{name.split(':')[0]}@{digest}" if digest else ""


def main():
    image, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    once(["srun", "-n1", "--container-image=" + image, "true"])
    digest = by_digest(image)
    for tasks in ("1", "8"):
        plain = ["srun", "-n" + tasks, "--overcommit", "true"]
        rows = {"plain": plain, "by tag": plain[:3] + ["--container-image=" + image, "true"]}
        if digest:
            rows["by digest"] = plain[:3] + ["--container-image=" + digest, "true"]
        times = {name: [] for name in rows}
        for _ in range(runs):
            for name, command in rows.items():
                times[name].append(once(command))
        base = statistics.median(times["plain"])
        for name, values in times.items():
            median = statistics.median(values)
            print(f"{tasks} tasks, {name:10} {median:8.1f} ms  +{median - base:6.1f}   "
                  f"(min {min(values):.1f}, max {max(values):.1f}, {runs} runs, load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()
