#!/usr/bin/env python3
"""What a container costs on a node with a GPU, as medians and ratios of one run: a start without the driver and with
it, and programs of CUDA on the node and in a container, in turns; with a Python that has PyTorch, an import of it and
a first product, with its files in the page cache and without.

Runs as the caller, an ordinary user who may open the GPU and /dev/fuse.
usage: gpu.py BUILD [RUNS [PYTHON]]; BUILD has berth and tests/gpu_sum, which needs nvcc.
"""
import json
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


# What this Python, and the distributions that PyTorch needs, consist of.
ASK_PYTHON = r"""
import importlib.metadata, importlib.util, json, os, re, sys, sysconfig
found, names = {}, ["torch", "numpy"]
while names:
    name = re.sub(r"[-_.]+", "-", names.pop()).lower()
    try:
        about = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        continue
    if name not in found:
        files = [str(about.locate_file(file)) for file in about.files or ()]
        compiled = [importlib.util.cache_from_source(file) for file in files if file.endswith(".py")]
        found[name] = files + [file for file in compiled if os.path.exists(file)]
        # What is of NVIDIA stands among the extras of another one.
        names += [re.match(r"[\w.-]+", need).group() for need in about.requires or ()
                  if "extra ==" not in need or name.startswith("cuda")]
print(json.dumps({"python": sys.executable, "prefix": sys.prefix, "stdlib": sysconfig.get_path("stdlib"),
                  "files": sum(found.values(), []), "distributions": sorted(found)}))
"""
PRODUCT = """
import torch
torch.manual_seed(1)
a = torch.rand(4096, 4096, device="cuda")
print(bool(torch.isclose((a @ a).double().sum(), a.double().sum(0) @ a.double().sum(1), rtol=1e-3)))
"""


def copy_there(root, path):
    """A file or link, at the same place."""
    os.makedirs(root + os.path.dirname(path), exist_ok=True)
    if not os.path.lexists(root + path):
        shutil.copy2(path, root + path, follow_symlinks=False)


def of_driver(folder, names):
    return [name for name in names if re.search(r"nvidia|^libcuda\.so|^libcudadebugger|^libnvcuvid|^libnvoptix", name)
            or os.path.realpath(f"{folder}/{name}").startswith("/usr/local/")]


def make_torch_root(root, python):
    """The node's libraries without the driver, and this Python with PyTorch; what of the node belongs to them."""
    asked = subprocess.run([python, "-c", ASK_PYTHON], capture_output=True, text=True, check=True)
    about = json.loads(asked.stdout)
    for folder in filter(os.path.islink, ("/bin", "/lib", "/lib64")):
        os.makedirs(f"{root}/usr{folder}")
        os.symlink("usr" + folder, root + folder)
    libraries = os.path.dirname(re.search(r"(/\S+)/libc\.so", subprocess.run(
        ["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout).group(0))
    shutil.copytree(libraries, root + libraries, symlinks=True, ignore=of_driver)
    make_root(root, ["/bin/sh", "/bin/true"])
    shutil.copytree(about["stdlib"], root + about["stdlib"], symlinks=True, dirs_exist_ok=True)
    program = about["python"]
    while os.path.islink(program):
        copy_there(root, program)
        program = os.path.join(os.path.dirname(program), os.readlink(program))
    program = os.path.realpath(program)
    copy_there(root, program)
    for path in [about["prefix"] + "/pyvenv.cfg"] + about["files"]:
        if os.path.lexists(path) and not os.path.isdir(path):
            copy_there(root, os.path.normpath(path))
    print(f"\nPyTorch's root file system: {len(about['files'])} files of {len(about['distributions'])} distributions")
    return about["python"], [about["prefix"], about["stdlib"], libraries, program]


def forget(paths):
    """Takes files out of the page cache, but for what a process has mapped."""
    for top in paths:
        tree = [(top, [""])] if os.path.isfile(top) else [(folder, names) for folder, _, names in os.walk(top)]
        for folder, names in tree:
            for name in names:
                try:
                    with open(os.path.join(folder, name) if name else folder, "rb") as file:
                        os.fsync(file.fileno())
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                except OSError:
                    pass


def compare(title, commands, runs, before=lambda: None):
    """In turns; the first is what the others are a multiple of."""
    for command in commands.values():
        start.once(command)
    times = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            before()
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

        if len(sys.argv) > 3:
            image = folder + "/torch.sqsh"
            python, of_node = make_torch_root(folder + "/torch", sys.argv[3])
            subprocess.run([berth, "run", "--save", image, folder + "/torch", "/bin/true"], check=True)
            print(f"its image: {os.path.getsize(image) / 1e9:.1f} GB")
            work = {"on the node": [python, "-c", PRODUCT], "in a container": inside("all", [python, "-c", PRODUCT])}
            said = {name: subprocess.run(command, capture_output=True, text=True, check=True).stdout
                    for name, command in work.items()}
            assert set(said.values()) == {"True\n"}, said
            compare("PyTorch and a product, from the page cache", work, 5)
            compare("PyTorch and a product, from the disk", work, 3, lambda: forget([*of_node, image]))


if __name__ == "__main__":
    main()
