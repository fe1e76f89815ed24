#!/usr/bin/env python3
"""Many starts and many kills at random moments; afterwards everything must be as it was before.

usage: soak.py run BERTH IMAGE [--starts N] [--kills N]
           as an ordinary user: `berth run`, killed by SIGKILL or SIGTERM, its command by SIGKILL
       soak.py slurm BOX IMAGE [--starts N] [--kills N]
           as root, in a box that is up: srun, and SIGKILL for the helper, a task or slurmstepd, or scancel, or the
           end of the time limit
Random moments come from a fixed seed. Prints what differs and exits with 1 when something was left.
"""
import argparse
import collections
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

PATIENCE = 30  # seconds for what is on its way out


def processes(proc="/proc"):
    """(pid, parent, uid, command line) of all that are no zombies."""
    out = []
    for entry in pathlib.Path(proc).iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line)
            if not status["State"].startswith("Z"):
                out.append((int(entry.name), int(status["PPid"]), int(status["Uid"].split()[0]),
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")))
        except (OSError, KeyError):
            continue
    return out


def entries(folder):
    return sum(1 for _ in pathlib.Path(folder).rglob("*")) if os.path.isdir(folder) else 0


def wait_until_same(measure, before):
    """The differences that are still there when the patience is at its end."""
    end = time.monotonic() + PATIENCE
    while True:
        now = measure()
        left = {key: (before[key], now[key]) for key in before if before[key] != now[key]}
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.5)


def lines_of(path):
    """None for what goes away meanwhile.

    An empty cgroup of a step is what slurmstepd leaves when it is killed, container or not.
    """
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def settled(measure):
    """What is measured once nothing changes any more."""
    before = measure()
    while True:
        time.sleep(2)
        now = measure()
        if now == before:
            return now
        before = now


def kill(pid):
    """It may have ended by itself by now."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Run:
    """`berth run` outside of Slurm."""

    def __init__(self, berth, image):
        self.berth, self.image = os.path.abspath(berth), image
        self.store = os.environ.get("BERTH_STORE_PATH", os.path.expanduser("~/.cache/berth"))

    def measure(self):
        mine = [command for _, _, uid, command in processes()
            if uid == os.getuid() and "berth" in command and "soak.py" not in command]
        return {"processes": len(mine), "mounts": len(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()),
            "descriptors": len(os.listdir("/proc/self/fd")), "store's tmp": entries(f"{self.store}/tmp"),
            "/tmp": len(os.listdir("/tmp"))}

    def start(self, command):
        return subprocess.Popen([self.berth, "run", self.image] + command, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    def succeed(self, count):
        failed = 0
        for first in range(0, count, 8):
            running = [self.start(["/bin/true"]) for _ in range(min(8, count - first))]
            failed += sum(process.wait() != 0 for process in running)
        return failed

    def kill(self, chance):
        process = self.start(["/bin/sleep", "1000"])
        time.sleep(chance.uniform(0, 0.03))
        victim = chance.choice(["berth -9", "berth -15", "command -9"])
        if victim == "command -9":
            for pid, parent, _, _ in processes():
                if parent == process.pid:
                    kill(pid)
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM if victim == "berth -15" else signal.SIGKILL)
        process.wait(timeout=PATIENCE)
        return victim


class Slurm:
    """Steps on the nodes of a box."""

    def __init__(self, box, image):
        self.box, self.image = box, image
        state = pathlib.Path(os.environ.get("BERTH_BOX_DIR", "/var/tmp/berth-box"))
        # The box has a PID namespace and cgroups of its own.
        self.root = pathlib.Path("/proc") / (state / "init").read_text().split()[0] / "root"
        self.proc = self.root / "proc"

    def kill_inside(self, pids):
        """Some may have ended by themselves by now."""
        if pids:
            self.inside("kill", "-9", *map(str, pids), user="root")

    def inside(self, *command, user="alice", **options):
        return subprocess.run([self.box, "run", "-u", user, "--", *command], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, **options)

    def measure(self):
        every = processes(self.proc)
        mine = [command for _, _, _, command in every
            if "berth step" in command or "soak-task" in command or "slurmstepd: [" in command]
        daemons = {pid: parent for pid, parent, _, command in every
            if command.startswith(("slurmd ", "/usr/sbin/slurmd"))}
        # Not what one of them has just forked.
        slurmd = [pid for pid, parent in daemons.items() if parent not in daemons]
        idle = self.inside("sinfo", "-h", "-o", "%T", user="root").stdout.split()
        return {"processes": len(mine),
            "descriptors of slurmd": sum(len(os.listdir(self.proc / str(pid) / "fd")) for pid in slurmd),
            "mounts of slurmd": sum(len((self.proc / str(pid) / "mountinfo").read_text().splitlines())
                for pid in slurmd),
            "cgroups with processes": sum(1 for path in (self.root / "sys/fs/cgroup").glob("**/*step*/**/cgroup.procs")
                if lines_of(path)),
            "node states": ",".join(sorted(set(idle)))}

    def step(self, *words, **options):
        return self.inside("srun", f"--container-image={self.image}", *words, **options)

    def succeed(self, count):
        return sum(self.step("true").returncode != 0 for _ in range(count))

    def kill(self, chance):
        victim = chance.choice(["helper -9", "task -9", "slurmstepd -9", "scancel", "time limit"])
        if victim == "time limit" and chance.random() > 0.1:
            victim = "scancel"  # the shortest limit is a minute
        limit = ["--time=0:01"] if victim == "time limit" else []
        process = subprocess.Popen([self.box, "run", "-u", "alice", "--", "srun", "-J", "soak", *limit,
            f"--container-image={self.image}", "sh", "-c", "exec -a soak-task sleep 1000 || sleep 1000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, 0.4))
        marks = {"helper -9": "berth step", "task -9": "sleep 1000", "slurmstepd -9": "slurmstepd: ["}
        if victim in marks:
            self.kill_inside([pid for pid, _, _, command in processes(self.proc)
                if marks[victim] in command and "srun" not in command])
            time.sleep(0.2)
        if victim != "time limit":
            self.inside("scancel", "-n", "soak")
        process.wait(timeout=180)
        return victim


def main():
    options = argparse.ArgumentParser()
    options.add_argument("kind", choices=["run", "slurm"])
    options.add_argument("program")
    options.add_argument("image")
    options.add_argument("--starts", type=int, default=1000)
    options.add_argument("--kills", type=int, default=200)
    options = options.parse_args()
    subject = (Run if options.kind == "run" else Slurm)(options.program, options.image)
    subject.succeed(1)
    before = settled(subject.measure)
    failed = subject.succeed(options.starts)
    chance, victims = random.Random(1), collections.Counter()
    for _ in range(options.kills):
        victims[subject.kill(chance)] += 1
    left = wait_until_same(subject.measure, before)
    print(f"{options.starts} starts, {failed} failed; kills: {dict(victims)}")
    for key, (was, now) in left.items():
        print(f"LEFT: {key}: {was} before, {now} now")
    sys.exit(1 if left or failed else 0)


if __name__ == "__main__":
    main()
