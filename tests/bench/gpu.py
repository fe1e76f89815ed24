#!/usr/bin/env python3
"""What a container costs on a node with a GPU, as medians and ratios of one run: a start without the driver and with
it, and programs of CUDA on the node and in a container, in turns.

Runs as the caller, an ordinary user who may open the GPU and /dev/fuse.
usage: gpu.py BUILD [RUNS]; BUILD has berth and tests/gpu_sum, which needs nvcc.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import start

# What the driver's libraries load beside what ldd says of the programs.
COMPANIONS = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6")


def make_root(root, programs):
    """The programs with the node's C library and nothing of the driver."""
    for folder in start.FOLDERS + ("usr/bin", "lib64"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    libraries = {}
    for program in programs:
        shutil.copy(program, os.path.join(root, "bin"))
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        libraries.update((os.path.basename(path), path) for path in re.findall(r"(/\S+)", listed))
    folder = os.path.dirname(libraries["libc.so.6"])
    for name in COMPANIONS:
        if os.path.exists(f"{folder}/{name}"):
            libraries[name] = f"{folder}/{name}"
    for path in libraries.values():
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    for path in ("/etc/debian_version", "/etc/redhat-release"):
        if os.path.exists(path):
            shutil.copy(path, root + path)


def compare(title, commands, runs):
    """In turns; the first is what the others are a multiple of."""
    for command in commands.values():
        start.once(command)
    times = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            times[name].append(start.once(command)[0])
    base = statistics.median(next(iter(times.values())))
    print(f"\n{title} ({runs} runs in turns)")
    for name, values in times.items():
        middle = statistics.median(values)
        print(f"  {name:34}{middle:10.2f} ms{middle - base:+9.2f}{middle / base:8.3f}x   "
              f"least {min(values):.2f}, most {max(values):.2f}")


def main():
    build = os.path.abspath(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    berth, sums = build + "/berth", build + "/tests/gpu_sum"
    with tempfile.TemporaryDirectory(prefix="berth-gpu-") as folder:
        root = folder + "/root"
        make_root(root, [sums, "/bin/true"])
        image = folder + "/image.sqsh"
        os.environ["BERTH_STORE_PATH"] = folder + "/store"
        subprocess.run([berth, "run", "--save", image, root, "/bin/true"], check=True)

        def inside(visible, command):
            return ["env", "NVIDIA_VISIBLE_DEVICES=" + visible, berth, "run", image, *command]

        compare("start of a container", {
            "without the driver": inside("void", ["/bin/true"]),
            "with the GPUs and the driver": inside("all", ["/bin/true"])}, runs)
        compare("nvidia-smi -L", {
            "on the node": ["nvidia-smi", "-L"], "in a container": inside("all", ["nvidia-smi", "-L"])}, runs)
        compare("a CUDA program", {"on the node": [sums], "in a container": inside("all", ["/bin/gpu_sum"])}, runs)


if __name__ == "__main__":
    main()
