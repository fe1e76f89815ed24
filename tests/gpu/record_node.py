#!/usr/bin/env python3
"""Writes what this node has of the NVIDIA driver as a fixture: tests/gpu/record_node.py > tests/fixtures/NAME.node

A line each; nothing of a file's content but of the driver's own texts below /proc:

    text PATH            its lines follow, each behind "| "
    device PATH MAJOR MINOR MODE
    directory PATH
    link PATH TARGET
    elf PATH SIZE        a program or library
    script PATH SIZE
    file PATH SIZE       anything else
    loader NAME PATH     what the loader's cache says, in its order

UUIDs are made up, and who built the driver is left out.
"""

import os
import re
import stat
import subprocess
import sys

TREES = ("/usr/local/nvidia", "/lib/firmware/nvidia", "/usr/share/nvidia", "/etc/nvidia", "/usr/share/vulkan",
         "/etc/vulkan", "/usr/share/glvnd", "/usr/share/egl", "/etc/OpenCL", "/run/nvidia-persistenced",
         "/run/nvidia-fabricmanager", "/run/nvidia-imex")
PROGRAM_FOLDERS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/bin")
FOLDER_LINKS = ("/bin", "/sbin", "/lib", "/lib64", "/usr/lib64")
DEVICE_FOLDERS = ("/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels", "/dev/dri", "/dev/infiniband")
OF_DRIVER = re.compile(r"nvidia|^libcuda\.so|^libcudadebugger|^libnvcuvid|^libnvoptix|^libnvcuextend")
PROGRAM = re.compile(r"^(nvidia-|nv-fabricmanager)")


def content(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def kind(path):
    with open(path, "rb") as file:
        start = file.read(4)
    return "elf" if start == b"\x7fELF" else "script" if start[:2] == b"#!" else "file"


class Record:
    def __init__(self):
        self.lines = {}
        self.uuids = {}

    def text(self, path, lines):
        for number, uuid in enumerate(sorted(set(re.findall(r"GPU-[0-9a-f-]{36}", lines)))):
            self.uuids.setdefault(uuid, f"GPU-{len(self.uuids):08x}-0000-0000-0000-{number:012x}")
        for uuid, other in self.uuids.items():
            lines = lines.replace(uuid, other)
        lines = re.sub(r"\(\S*@\S*\)", "(builder@host)", lines)
        self.lines[path] = f"text {path}\n" + "".join(f"| {line}\n" for line in lines.splitlines())

    def entry(self, path):
        """Any object but a directory's members."""
        if path in self.lines:
            return
        try:
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                self.lines[path] = f"link {path} {os.readlink(path)}\n"
            elif stat.S_ISCHR(about.st_mode):
                number = f"{os.major(about.st_rdev)} {os.minor(about.st_rdev)}"
                self.lines[path] = f"device {path} {number} {about.st_mode & 0o777:o}\n"
            elif stat.S_ISDIR(about.st_mode):
                self.lines[path] = f"directory {path}\n"
            elif stat.S_ISREG(about.st_mode):
                self.lines[path] = f"{kind(path)} {path} {about.st_size}\n"
        except OSError:
            pass

    def tree(self, top):
        for folder, _, names in os.walk(top):
            self.entry(folder)
            for name in names:
                self.entry(os.path.join(folder, name))

    def matching(self, folder, pattern):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if pattern.search(name):
                self.entry(os.path.join(folder, name))


def main():
    record = Record()
    for folder, _, names in os.walk("/proc/driver/nvidia"):
        record.entry(folder)
        for name in names:
            path = os.path.join(folder, name)
            text = content(path)
            if text is not None and name not in ("README", "suspend", "suspend_depth", "registry", "power"):
                record.text(path, text)
    # mig-minors beside these has thousands of lines, and access below capabilities the same numbers.
    for path in ("/proc/driver/nvidia-caps/nvlink-minors", "/proc/driver/nvidia-caps/sys-minors", "/proc/devices",
                 "/sys/module/firmware_class/parameters/path"):
        text = content(path)
        if text is not None:
            record.text(path, text)
    for path in FOLDER_LINKS:
        if os.path.islink(path):
            record.entry(path)
    record.matching("/dev", re.compile("^(nvidia|gdrdrv)"))
    for folder in DEVICE_FOLDERS:
        record.tree(folder)
    for tree in TREES:
        record.tree(tree)
    for folder in PROGRAM_FOLDERS:
        record.matching(folder, PROGRAM)
    known = []
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for name, path in re.findall(r"^\s+(\S+) \(.*\) => (\S+)$", listed, re.M):
        if OF_DRIVER.search(name):
            known.append(f"loader {name} {path}\n")
    folders = {os.path.dirname(line.split()[2]) for line in known}
    for folder in sorted({os.path.realpath(folder) for folder in folders}):
        record.matching(folder, OF_DRIVER)
    for path in sorted(record.lines):
        # Modules of the kernel and the like are nobody's but the driver's own.
        if not path.endswith(".ko"):
            sys.stdout.write(record.lines[path])
    sys.stdout.writelines(known)


if __name__ == "__main__":
    main()
