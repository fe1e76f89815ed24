#!/usr/bin/env python3
"""What a container costs a program that computes on all CPUs of its step, and how it lengthens the tail: fixed work
with a barrier after each round (noise.cc), plain and contained in turns, in one allocation; medians and ratios.

usage, as an ordinary user where a Slurm with berth runs: salloc -N1 --exclusive python3 noise.py IMAGE PROGRAM [RUNS];
PROGRAM is build/tests/noise, which the image need not have.
"""
import json
import os
import statistics
import subprocess
import sys

ROUNDS = "4000"


def once(options, program):
    step = ["srun", "-n1", "-c", os.environ["SLURM_JOB_CPUS_PER_NODE"].split("(")[0], *options, program, ROUNDS]
    done = subprocess.run(step, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(step)}: exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    image, program, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 8
    kinds = {"plain": ([], program),
        "contained": ([f"--container-image={image}", f"--container-mounts={program}:/noise:ro"], "/noise")}
    times = {name: [] for name in kinds}
    for _ in range(runs):
        for name, (options, command) in kinds.items():
            times[name].append(once(options, command))
    print(f"{runs} runs of {ROUNDS} rounds each on {times['plain'][0]['cpus']} CPUs, load {os.getloadavg()[0]:.1f}")
    for value in ("all", "median", "p999", "longest"):
        plain, contained = (statistics.median(one[value] for one in times[name]) for name in ("plain", "contained"))
        print(f"{value:8} plain {plain:12.1f} us, contained {contained:12.1f} us: {contained / plain:.4f}")


if __name__ == "__main__":
    main()
