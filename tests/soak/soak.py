#!/usr/bin/env python3
"""Many starts and many kills at random moments; afterwards everything must be as it was before.

usage: soak.py run BERTH IMAGE [--starts N] [--kills N]
           as an ordinary user: `berth run`, killed by SIGKILL or SIGTERM, its command by SIGKILL
       soak.py slurm BOX IMAGE [--starts N] [--kills N]
           as root, in a box that is up: srun, and SIGKILL for the helper, a task or slurmstepd, or scancel, or the
           end of the time limit
Each victim is waited for, must be alive when it is hit, and its end must show in the exit code. Random moments come
from a fixed seed. Prints how many victims were hit, and what differs; exits with 1 when a start failed, a victim was
missed or something was left.
"""
import argparse
import collections
import contextlib
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import tempfile
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
    """None for what goes away meanwhile."""
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


def kill(pid, is_victim):
    """Kills the process if it still is the victim that was chosen; true when it was alive until then."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not is_victim(pid) or ended(handle):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return ended(handle, PATIENCE)
    finally:
        os.close(handle)


def ended(handle, timeout=0):
    return bool(select.select([handle], [], [], timeout)[0])


def wait_for(find):
    """What `find` finds, as soon as it is there; None when the patience is at its end."""
    end = time.monotonic() + PATIENCE
    while not (found := find()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def command_of(folder):
    """The words of a process; none when it has gone."""
    try:
        return (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def codes(wanted):
    """How the failure of a wrong exit code reads."""
    return " or ".join(map(str, sorted(wanted))) if wanted else "a failure"


class Run:
    """`berth run` outside of Slurm."""

    # -N: ended by signal N. SIGTERM goes to the command when there is one, whose end is told as a shell tells it.
    CODES = {"berth -9": {-9}, "berth -15": {-15, 143}, "command -9": {137}}

    def __init__(self, berth, image):
        self.berth, self.image = os.path.abspath(berth), image
        self.store = os.environ.get("BERTH_STORE_PATH", os.path.expanduser("~/.cache/berth"))

    def measure(self):
        mine = [command for _, _, uid, command in processes()
            if uid == os.getuid() and ("berth" in command or TASK in command) and "soak.py" not in command]
        return {"processes": len(mine), "mounts": len(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()),
            "descriptors": len(os.listdir("/proc/self/fd")), "store's tmp": entries(f"{self.store}/tmp"),
            "/tmp": len(os.listdir("/tmp"))}

    def start(self, command):
        return subprocess.Popen([self.berth, "run", self.image] + command, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    def warm_up(self):
        self.succeed(1)

    def succeed(self, count):
        failed = 0
        for first in range(0, count, 8):
            running = [self.start(["/bin/true"]) for _ in range(min(8, count - first))]
            failed += sum(process.wait() != 0 for process in running)
        return failed

    def task_of(self, process):
        return next((pid for pid, parent, _, command in processes()
            if parent == process.pid and command.startswith(TASK)), None)

    def kill(self, chance):
        victim = chance.choice(list(self.CODES))
        process = self.start(["/bin/bash", "-c", f"exec -a {TASK} sleep 1000"])
        task = wait_for(lambda: self.task_of(process)) if victim == "command -9" else None
        time.sleep(chance.uniform(0, 0.03))
        if victim == "command -9":
            hit = task is not None and kill(task, lambda pid: command_of(pathlib.Path(f"/proc/{pid}"))[:1] == [TASK])
        else:
            hit = process.poll() is None
            process.send_signal(signal.SIGTERM if victim == "berth -15" else signal.SIGKILL)
        return victim, hit, verdict(process, self.CODES[victim])


def verdict(process, wanted, timeout=PATIENCE):
    """Waits for its end; what is wrong with that. Any failure will do where no codes are wanted."""
    try:
        code = process.wait(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"went on for {timeout} s"
    return "" if (code in wanted if wanted else code != 0) else f"ended with {code}, not {codes(wanted)}"


class Slurm:
    """Steps on the nodes of a box."""

    # Exit codes of srun; what is not here ends in any failure. Without its slurmstepd a step that is cancelled may end
    # with 0, container or not.
    CODES = {"task -9": {137}, "slurmstepd -9": range(256)}
    VICTIMS = ["helper -9", "task -9", "slurmstepd -9", "scancel", "time limit"]

    def __init__(self, box, image):
        self.box, self.image = box, image
        state = pathlib.Path(os.environ.get("BERTH_BOX_DIR", "/var/tmp/berth-box"))
        # The box has a PID namespace and cgroups of its own.
        self.init = (state / "init").read_text().split()[0]
        self.root = pathlib.Path("/proc") / self.init / "root"
        self.proc = self.root / "proc"
        self.killed_jobs = set()  # whose slurmstepd was killed

    def inside(self, *command, user="alice", **options):
        return subprocess.run([self.box, "run", "-u", user, "--", *command], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, **options)

    def of_slurmd(self):
        """The processes of the nodes' slurmd, and not what one of them has just forked."""
        daemons = {pid: parent for pid, parent, _, command in processes(self.proc)
            if command.startswith(("slurmd ", "/usr/sbin/slurmd"))}
        return [pid for pid, parent in daemons.items() if parent not in daemons]

    def measure(self):
        every = processes(self.proc)
        slurmd = self.of_slurmd()
        idle = self.inside("sinfo", "-h", "-o", "%T", user="root").stdout.split()
        return {"processes": sum(1 for _, _, _, command in every if is_of_step(command)),
            "descriptors of slurmd": sum(len(os.listdir(self.proc / str(pid) / "fd")) for pid in slurmd),
            "mounts of slurmd": sum(len((self.proc / str(pid) / "mountinfo").read_text().splitlines())
                for pid in slurmd),
            "cgroups": len(self.cgroups()),
            "cgroups with processes": sum(1 for path in (self.root / "sys/fs/cgroup").glob("**/*step*/**/cgroup.procs")
                if lines_of(path)),
            "files of the nodes": sum(entries(self.root / folder) for folder in ("dev/shm", "tmp")) + self.of_nodes(),
            "files in /run/berth": sum(entries(self.proc / str(pid) / "root/run/berth") for pid in slurmd),
            "node states": ",".join(sorted(set(idle)))}

    def of_nodes(self):
        """What is half made in the stores of the nodes, and named containers."""
        nodes = pathlib.Path(os.environ.get("BERTH_BOX_DIR", "/var/tmp/berth-box")) / "nodes"
        return sum(entries(folder) for pattern in ("*/store/*/tmp", "*/store/*.containers")
            for folder in nodes.glob(pattern))

    def cgroups(self):
        """Of steps. slurmstepd leaves them empty when it is killed, container or not."""
        found = [path for path in (self.root / "sys/fs/cgroup").glob("**/job_*/step_*") if path.is_dir()]
        return [path for path in found if path.parent.name.removeprefix("job_") not in self.killed_jobs]

    def step(self, *words, **options):
        return self.inside("srun", f"--container-image={self.image}", *words, **options)

    def warm_up(self):
        """A node has a mount and a folder in /run from its first step on."""
        self.step("-N", str(len(self.of_slurmd())), "true")

    def succeed(self, count):
        return sum(self.step("true").returncode != 0 for _ in range(count))

    def find(self, is_victim):
        """The number on this machine, by which it can be killed, of a process of the box."""
        namespace = os.stat(f"/proc/{self.init}/ns/pid").st_ino
        for pid, _, _, _ in processes():
            with contextlib.suppress(OSError):
                if is_victim(pid) and os.stat(f"/proc/{pid}/ns/pid").st_ino == namespace:
                    return pid
        return None

    def hit(self, victim):
        """Ends the step in this way; true when what was to be hit was alive."""
        if victim == "scancel":
            running = "soak" in self.inside("squeue", "-h", "-t", "RUNNING", "-o", "%j", user="root").stdout.split()
            return running and self.inside("scancel", "-n", "soak").returncode == 0
        pid = self.find(MARKS[victim])
        words = command_of(pathlib.Path(f"/proc/{pid}"))
        if victim == "slurmstepd -9" and words:
            self.killed_jobs.add(words[0].split("[")[1].split(".")[0])
        return pid is not None and kill(pid, MARKS[victim])

    def kill(self, chance):
        victim = chance.choice(self.VICTIMS)
        if victim == "time limit" and chance.random() > 0.1:
            victim = "scancel"  # the shortest limit is a minute
        limit = ["--time=0:01"] if victim == "time limit" else []
        # No step of a job before is taken for this one's.
        problem = "" if wait_for(self.is_quiet) else "the step before goes on"
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen([self.box, "run", "-u", "alice", "--", "srun", "-J", "soak", *limit,
                f"--container-image={self.image}", "bash", "-c", f"exec -a {TASK} sleep 1000"],
                stdout=output, stderr=output)
            there = wait_for(lambda: self.find(MARKS[victim]))
            time.sleep(chance.uniform(0, 0.4))
            hit = there is not None and (victim == "time limit" or self.hit(victim))
            if victim == "slurmstepd -9":
                self.inside("scancel", "-n", "soak")
            problem = problem or verdict(process, self.CODES.get(victim), 180)
            output.seek(0)
            if victim == "time limit":
                hit = "DUE TO TIME LIMIT" in output.read()
        self.inside("scancel", "-n", "soak")
        return victim, hit, problem

    def is_quiet(self):
        return not any(is_of_step(command) for _, _, _, command in processes(self.proc))


TASK = "soak-task"


def is_of_step(command):
    return "berth step" in command or command.startswith((TASK, "slurmstepd: ["))


def is_helper(pid):
    return command_of(pathlib.Path(f"/proc/{pid}"))[1:2] == ["step"]


def is_task(pid):
    return command_of(pathlib.Path(f"/proc/{pid}"))[:1] == [TASK]


def is_slurmstepd(pid):
    words = command_of(pathlib.Path(f"/proc/{pid}"))
    return bool(words) and words[0].startswith("slurmstepd: [")


# The process that must be there before a victim is hit.
MARKS = {"helper -9": is_helper, "task -9": is_task, "slurmstepd -9": is_slurmstepd, "scancel": is_helper,
    "time limit": is_task}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("kind", choices=["run", "slurm"])
    options.add_argument("program")
    options.add_argument("image")
    options.add_argument("--starts", type=int, default=1000)
    options.add_argument("--kills", type=int, default=200)
    options = options.parse_args()
    subject = (Run if options.kind == "run" else Slurm)(options.program, options.image)
    subject.warm_up()
    before = settled(subject.measure)
    failed = subject.succeed(options.starts)
    chance, victims, problems = random.Random(1), collections.Counter(), []
    for number in range(options.kills):
        victim, hit, problem = subject.kill(chance)
        victims[victim] += hit
        if not hit or problem:
            problems.append(f"MISSED: kill {number + 1}, {victim}: {problem or 'the victim was not there'}")
    left = wait_until_same(subject.measure, before)
    print(f"{options.starts} starts, {failed} failed; {sum(victims.values())} of {options.kills} victims hit: "
        f"{dict(victims)}")
    for problem in problems:
        print(problem)
    for key, (was, now) in left.items():
        print(f"LEFT: {key}: {was} before, {now} now")
    sys.exit(1 if left or failed or problems else 0)


if __name__ == "__main__":
    main()
