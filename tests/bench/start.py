#!/usr/bin/env python3
"""Start latency of `berth run` beside its peers, as medians and ratios of one run; then where berth's time goes, by
phases and system calls.

Runs as the caller (not root: user namespaces are what is measured), in turns A B C A B C ..., so that a slow moment
hits all alike. What is not installed, or does not work here, is named and left out. CPU is that of the command and of
what it waited for, which a busy machine disturbs less than the time.
usage: start.py BERTH INSIDE [RUNS]; INSIDE is the static program build/tests/inside, the only one of the images.
"""
import collections
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / name) for name in ("registry", "hostile")]
import make_corpus  # noqa: E402
import oci_layout  # noqa: E402

FOLDERS = ("bin", "proc", "dev", "tmp", "etc", "sys", "run", "root", "home")
COMMAND = ["/bin/inside", "true"]
SETTLED_SECONDS = 4


class Scene:
    """One image in every form that a peer takes."""

    def __init__(self, folder, program):
        self.folder = Path(folder)
        self.program = program
        self.root = str(self.folder / "root")
        for name in FOLDERS:
            os.makedirs(os.path.join(self.root, name))
        shutil.copy(program, os.path.join(self.root, "bin", "inside"))
        self.small = self.layout("small", [])
        self.large = self.layout("large",
            [[oci_layout.file(f"usr/lib/dir{i % 100}/file{i}", f"content {i}") for i in range(start, start + 3334)]
                for start in (0, 3334, 6668)])

    def layout(self, name, more):
        folders = [oci_layout.directory(folder) for folder in FOLDERS]
        base = folders + [oci_layout.file("bin/inside", Path(self.program).read_bytes(), 0o755)]
        layout = oci_layout.Layout(self.folder / name)
        layout.publish(layout.image([oci_layout.tar(entries) for entries in [base] + more], {"Cmd": COMMAND}))
        return f"oci:{self.folder / name}"

    def squashfs(self, large=False):
        image = self.folder / ("large.sqsh" if large else "image.sqsh")
        if not image.exists():
            # Its names are as many as those of the large layout.
            more = self.folder / "more" / "usr"
            for name in range(10_000 if large else 0):
                (more / f"dir{name % 100}").mkdir(parents=True, exist_ok=True)
                (more / f"dir{name % 100}" / f"file{name}").write_text(f"content {name}")
            subprocess.run(["mksquashfs", *(str(path) for path in Path(self.root).iterdir()), *([str(more)] if large
                else []), str(image), "-noappend", "-quiet", "-no-progress", "-comp", "zstd"], check=True,
                stdout=subprocess.DEVNULL)
        return str(image)

    def sif(self, large=False):
        """Of the same squashfs."""
        image = Path(self.squashfs(large)).with_suffix(".sif")
        image.write_bytes(make_corpus.sif(Path(self.squashfs(large)).read_bytes()))
        return str(image)

    def apptainer(self, berth):
        """A name of berth."""
        link = self.folder / "apptainer"
        link.symlink_to(os.path.abspath(berth))
        return str(link)

    def served_by_squashfuse(self, large=False):
        """The way that Apptainer goes without setuid, without its binds."""
        (self.folder / "mount").mkdir(exist_ok=True)
        script = ('squashfuse_ll "$0" "$1" && '
            'exec bwrap --ro-bind "$1" / --dev /dev --proc /proc --bind /tmp /tmp "$2" true')
        return ["unshare", "-Urm", "sh", "-c", script, self.squashfs(large), str(self.folder / "mount"), COMMAND[0]]

    def under_overlay(self, large=False):
        """The same with a root in which mount points can be made, as Apptainer has it."""
        (self.folder / "layers").mkdir(exist_ok=True)
        script = """squashfuse_ll "$0" "$1" && mount -t tmpfs none "$3" && cd "$3" && mkdir upper work root &&
            mount -t overlay -o userxattr,lowerdir="$1",upperdir=upper,workdir=work none root &&
            exec bwrap --bind root / --dev /dev --proc /proc --bind /tmp /tmp "$2" true"""
        return [*self.served_by_squashfuse()[:4], script, self.squashfs(large), str(self.folder / "mount"), COMMAND[0],
            str(self.folder / "layers")]

    def bundle(self):
        """A bundle of the runtime specification, as small as crun's own."""
        bundle = self.folder / "bundle"
        bundle.mkdir()
        subprocess.run(["crun", "spec", "--rootless"], cwd=bundle, check=True)
        config = json.loads((bundle / "config.json").read_text())
        config["process"].update(terminal=False, args=COMMAND)
        config["root"] = {"path": self.root, "readonly": False}
        (bundle / "config.json").write_text(json.dumps(config))
        return str(bundle)


def peers(scene):
    """Name -> a function that makes the command; what it needs first."""
    folder = str(scene.folder)
    return {
        "unshare -Urm": ("unshare", lambda: ["unshare", "-Urm", scene.program, "true"]),
        "bwrap": ("bwrap", lambda: ["bwrap", "--bind", scene.root, "/", *COMMAND]),
        "squashfuse_ll + bwrap": ("squashfuse_ll", scene.served_by_squashfuse),
        "squashfuse_ll, 10k": ("squashfuse_ll", lambda: scene.served_by_squashfuse(large=True)),
        "and overlay": ("squashfuse_ll", scene.under_overlay),
        "and overlay, 10k": ("squashfuse_ll", lambda: scene.under_overlay(large=True)),
        "ch-run, directory": ("ch-run", lambda: ["ch-run", scene.root, "--", *COMMAND]),
        "ch-run, squashfs": ("ch-run", lambda: ["ch-run", scene.squashfs(), "--", *COMMAND]),
        "crun": ("crun", lambda: ["crun", "--root", folder + "/crun", "--cgroup-manager=disabled", "run",
            "--bundle", scene.bundle(), "bench"]),
        "podman": ("podman", lambda: ["podman", "--root", folder + "/podman", "--runroot", folder + "/podman-run",
            "run", "--rm", "--network=none", "--rootfs", scene.root, *COMMAND]),
    }


def contestants(berth, scene):
    """Name -> command, of those that work here."""
    out = {
        "host": [scene.program, "true"],
        "berth, store": [berth, "run", scene.small, *COMMAND],
        "berth, 10k entries": [berth, "run", scene.large, *COMMAND],
    }
    if shutil.which("mksquashfs"):
        out["berth, .sqsh"] = [berth, "run", scene.squashfs(), *COMMAND]
        out["apptainer, .sif"] = [scene.apptainer(berth), "exec", scene.sif(), *COMMAND]
        out["apptainer, 10k .sif"] = [out["apptainer, .sif"][0], "exec", scene.sif(large=True), *COMMAND]
    for command in out.values():
        once(command)
    for name, (needed, make) in peers(scene).items():
        if not shutil.which(needed):
            print(f"{name}: left out, {needed} is not installed")
            continue
        try:
            command = make()
            once(command)
            out[name] = command
        except (OSError, RuntimeError, subprocess.SubprocessError) as problem:
            print(f"{name}: left out, it does not work here: {problem}")
    return out


def once(command):
    """Milliseconds on the clock and of the processor.

    The wait blocks: subprocess's own, with a time limit, looks only every few milliseconds.
    """
    with tempfile.TemporaryFile() as errors:
        actions = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
        actions += [(os.POSIX_SPAWN_DUP2, errors.fileno(), 2)]
        start = time.perf_counter()
        child = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
        _, status, used = os.wait4(child, 0)
        elapsed = (time.perf_counter() - start) * 1000
        if status != 0:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines() or ["no message"]
            raise RuntimeError(f"exit code {os.waitstatus_to_exitcode(status)}: {lines[-1][:160]}")
    return elapsed, (used.ru_utime + used.ru_stime) * 1000


def print_times(commands, runs):
    times = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            times[name].append(once(command))
    clock = {name: statistics.median(wall for wall, _ in values) for name, values in times.items()}
    print(f"{'':22}{'median ms':>10}{'min':>8}{'max':>8}{'CPU ms':>8}{'over host':>11}{'store / it':>12}   "
          f"({runs} runs in turns, load {os.getloadavg()[0]:.1f})")
    for name, values in times.items():
        walls, cpu = [wall for wall, _ in values], statistics.median(cpu for _, cpu in values)
        print(f"{name:22}{clock[name]:10.2f}{min(walls):8.2f}{max(walls):8.2f}{cpu:8.2f}"
              f"{clock[name] - clock['host']:11.2f}{clock['berth, store'] / clock[name]:12.2f}")


def print_phases(commands, runs):
    """What `berth run -v` says, in medians."""
    names = [name for name in commands if name.startswith("berth")]
    phases = {name: collections.defaultdict(list) for name in names}
    for _ in range(runs):
        for name in names:
            command = commands[name][:2] + ["-v"] + commands[name][2:]
            said = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True,
                text=True).stderr
            for phase, time_taken in re.findall(r"^berth: (\S+) +(\d+) us$", said, re.MULTILINE):
                phases[name][phase].append(int(time_taken))
    print(f"\n{'microseconds':22}" + "".join(f"{name:>22}" for name in names))
    for phase in phases[names[0]]:
        print(f"  {phase:20}" + "".join(f"{statistics.median(phases[name][phase] or [0]):22.0f}" for name in names))


def print_calls(commands):
    """System calls of one start, the dearest names first."""
    if not shutil.which("strace"):
        print("\nsystem calls: left out, strace is not installed")
        return
    counts = {}
    for name in [name for name in commands if name in ("bwrap", "berth, store")]:
        with tempfile.NamedTemporaryFile("r") as log:
            subprocess.run(["strace", "-f", "-c", "-U", "name,calls", "-o", log.name, *commands[name]],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            counts[name] = {call: int(number)
                for call, number in re.findall(r"^(\w+) +(\d+)$", log.read(), re.MULTILINE) if call != "total"}
    print("\nsystem calls, by strace -f -c (what waits for a tracer may repeat itself)")
    for name, calls in counts.items():
        most = sorted(calls.items(), key=lambda item: -item[1])
        print(f"  {name:20}{sum(calls.values()):6}   " + "  ".join(f"{call} {number}" for call, number in most[:14]))


def main():
    berth, program = (os.path.abspath(path) for path in sys.argv[1:3])
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 30
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as folder:
        os.environ["BERTH_STORE_PATH"] = folder + "/store"
        scene = Scene(folder, program)
        commands = contestants(berth, scene)
        # What has changed in the last seconds is read again by each start: its clock would not tell another change from
        # this one.
        time.sleep(SETTLED_SECONDS)
        print_times(commands, runs)
        print_phases(commands, min(runs, 10))
        print_calls(commands)


if __name__ == "__main__":
    main()
