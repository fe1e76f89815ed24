#!/usr/bin/env python3
"""Reading inside an image: our file server, alone and under the overlay, beside an unpacked directory, the kernel's
squashfs and squashfuse_ll.

usage: io.py BERTH_PULL SERVE [--scale S] [--runs N] [--cache DIR] [--json FILE]; as root (the kernel's squashfs needs
it), the rest runs as the ordinary user --user. Every measurement is of a fresh mount, with the image's file in the page
cache; "again" is the same once more on that mount. The mounts take turns, and the figures are medians of one run; the
ratios are to the kernel's squashfs.
"""
import argparse
import contextlib
import gzip
import hashlib
import io
import json
import os
import pwd
import shutil
import statistics
import subprocess
import tarfile
import tempfile

import ngc_image

HERE = os.path.dirname(os.path.abspath(__file__))
WORKS = ["find", "stat", "findstat", "small", "import", "sequential", "random4k"]


def write_storm_layer(folder):
    """A Python package of 1500 modules, imported one by another, with their byte code left out: every one is read and
    compiled."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for part in ("opt", "opt/storm", "opt/storm/storm"):
            tar.addfile(ngc_image.entry(part, tarfile.DIRTYPE, mode=0o755))
        body = "".join(f"def f{i}(a, b={i}):\n    return a + b\n" for i in range(6))
        for i in range(1500):
            content = (f"# module {i}\n" + body).encode()
            tar.addfile(ngc_image.entry(f"opt/storm/storm/m{i}.py", size=len(content)), io.BytesIO(content))
        content = "".join(f"from . import m{i}\n" for i in range(1500)).encode()
        tar.addfile(ngc_image.entry("opt/storm/storm/__init__.py", size=len(content)), io.BytesIO(content))
    packed = gzip.compress(data.getvalue(), 6, mtime=0)
    return ngc_image.blob(folder, packed), len(packed), hashlib.sha256(data.getvalue()).hexdigest()


def as_user(user, command):
    return ["setpriv", "--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--clear-groups", "--"] + command


def prepare(options):
    """The image as a store, one squashfs file and a directory; made once and kept."""
    layout = os.path.join(options.cache, f"layout-{options.scale}")
    work = os.path.join(options.cache, f"io-{options.scale}")
    if os.path.exists(os.path.join(work, "ready")):
        return work
    os.makedirs(layout, exist_ok=True)
    facts = os.path.join(layout, "layers.json")
    if not os.path.exists(facts):
        layers = ngc_image.write_layers(layout, options.scale)
        with open(facts, "w", encoding="ascii") as file:
            json.dump(layers, file)
    with open(facts, encoding="ascii") as file:
        layers = json.load(file)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    ngc_image.write_image(layout, layers + [write_storm_layer(layout)], b"io")
    shutil.chown(work, options.user)
    for command in ([options.pull, "import", "--store", f"{work}/store", "-o", f"{work}/flat.sqsh", f"oci:{layout}"],
                    ["unsquashfs", "-q", "-n", "-d", f"{work}/directory", f"{work}/flat.sqsh"]):
        subprocess.run(as_user(options.user, command), check=True)
    with open(os.path.join(work, "ready"), "w", encoding="ascii") as file:
        file.write(f"oci:{layout}")
    return work


@contextlib.contextmanager
def kernel_squashfs(work):
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        subprocess.run(["mount", "-t", "squashfs", "-o", "loop,ro", f"{work}/flat.sqsh", place], check=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", place], check=True)


@contextlib.contextmanager
def squashfuse(work, user):
    with tempfile.TemporaryDirectory() as place:
        shutil.chown(place, user)
        subprocess.run(as_user(user, ["squashfuse_ll", f"{work}/flat.sqsh", place]), check=True)
        try:
            yield place
        finally:
            subprocess.run(as_user(user, ["fusermount3", "-u", place]), check=True)


def figures(command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()], done.stderr


def measure(name, kind, work, options, memory):
    command = ["/usr/bin/python3", "-I", f"{HERE}/io_work.py", name]
    with open(os.path.join(work, "ready"), encoding="ascii") as file:
        image = file.read()
    if kind == "directory":
        return figures(as_user(options.user, ["env", "-C", f"{work}/directory"] + command))[0]
    if kind == "kernel squashfs":
        with kernel_squashfs(work) as place:
            return figures(as_user(options.user, ["env", "-C", place] + command))[0]
    if kind == "squashfuse_ll":
        with squashfuse(work, options.user) as place:
            return figures(as_user(options.user, ["env", "-C", place] + command))[0]
    mode, what = {"berth": ("plain", image), "berth, overlay": ("overlay", image),
                  "berth, one file": ("plain", f"{work}/flat.sqsh")}[kind]
    result, report = figures(as_user(options.user, [options.serve, mode, f"{work}/store", what] + command))
    memory[kind] = max(memory.get(kind, 0), int(report.split()[-2]) / 1024)
    return result


def show(table, kinds, memory):
    print(f"{'':22}" + "".join(f"{kind:>24}" for kind in kinds))
    for name in WORKS:
        for index, row in enumerate((name, name + " again")):
            base = table[name]["kernel squashfs"][index]
            values = [table[name][kind][index] for kind in kinds]
            form = "{:.0f}/s ({:.2f}x)" if name == "random4k" else "{:.3f} ({:.2f}x)"
            cells = [form.format(value, value / base) for value in values]
            print(f"{row:22}" + "".join(f"{cell:>24}" for cell in cells))
    peaks = (f"{memory[kind]:>24.0f}" if kind in memory else f"{'-':>24}" for kind in kinds)
    print(f"{'server, peak MB':22}" + "".join(peaks))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("pull")
    options.add_argument("serve")
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--user", default="nobody")
    options.add_argument("--cache", default="/var/tmp/berth-bench")
    options.add_argument("--json")
    options = options.parse_args()
    options.pull, options.serve = os.path.abspath(options.pull), os.path.abspath(options.serve)
    work = prepare(options)
    kinds = ["directory", "kernel squashfs", "berth", "berth, overlay", "berth, one file"]
    if shutil.which("squashfuse_ll"):
        kinds.append("squashfuse_ll")
    memory = {}
    table = {name: {kind: [] for kind in kinds} for name in WORKS}
    for name in WORKS:
        for _ in range(options.runs):
            for kind in kinds:
                table[name][kind].append(measure(name, kind, work, options, memory))
        table[name] = {kind: [statistics.median(values) for values in zip(*table[name][kind])] for kind in kinds}
    show(table, kinds, memory)
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump({"seconds, or operations a second": table, "peak MB": memory}, file, indent=1)


if __name__ == "__main__":
    main()
