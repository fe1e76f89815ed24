#!/usr/bin/env python3
"""The table "What it costs" of README.md, all of it in one run: each benchmark beside its peers, one after the other.

usage: readme.py BUILD [--short] [--only WORDS] [--user NAME] [--out FOLDER]; as root, on a machine that nobody else
uses, with a user who is none of the system's for what is measured without rights. --short takes minutes in place of
hours and shows that each row can be measured: its figures are no figures. What the benchmarks print is kept in FOLDER.
A row that could not be measured is told of, and the exit code is 1. What the rows need besides the tests' packages:
apt-get install isal squashfs-tools-ng bubblewrap charliecloud-builders.

Each row begins with the ratio, which other machines come near; the times are those of this one.
"""
import argparse
import datetime
import json
import os
import pwd
import re
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))


def milliseconds(value):
    return f"{value:.1f} ms" if value < 20 else f"{value:.0f} ms"


def seconds(value):
    return f"{value:.3f} s" if value < 0.1 else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def row(label, ours, others, form):
    """(label, ratio to the first of the others, ours, the others); `others` is a list of (name, value)."""
    there = [(name, value) for name, value in others if value is not None]
    ratio = f"{ours / there[0][1]:.2f}" if there else ""
    return label, ratio, form(ours), ", ".join(f"{form(value)} {name}" for name, value in there)


class Start:
    command = "make bench-start"
    needs = "bwrap", "squashfuse_ll", "mksquashfs"

    @staticmethod
    def words(options):
        return as_user(options, ["python3", f"{HERE}/start.py", f"{options.build}/berth",
            f"{options.build}/tests/inside", "3" if options.short else "30"])

    @staticmethod
    def rows(text, _):
        table = text.partition("\nmicroseconds")[0]
        median = {name.strip(): float(value) for name, value in re.findall(r"^(\S.{21}) *([\d.]+) ", table, re.M)}
        started = sum(float(value) for value in re.findall(
            r"^  (?:namespaces|sources|upper|server|overlay|edits|enter) +([\d.]+)", text, re.M)) / 1000
        peers = [(peer, median.get(peer)) for peer in ("bwrap", "squashfuse_ll + bwrap", "host")]
        yield row("`berth run`, a static program", median["berth, store"], peers, milliseconds)
        if started:
            yield row("of that, making the container", started, [], milliseconds)
        for name, label, peer in (("berth, .sqsh", "the same program, from a .sqsh", "squashfuse_ll + bwrap"),
                ("apptainer, .sif", "the same, by `apptainer exec` from a SIF file", "squashfuse_ll + bwrap"),
                ("berth, 10k entries", "the same, of 10,000 files", "squashfuse_ll, 10k")):
            if name in median:
                yield row(label, median[name], [(peer, median.get(peer))], milliseconds)


class Srun:
    command = "make bench-srun"
    needs = ("slurmctld",)

    @staticmethod
    def words(options):
        box = "scripts/slurm-in-a-box"
        return ["bash", "-euc", f"trap '{box} down' EXIT; {box} up >&2; scripts/make-test-image --main >&2; "
            f"{box} run -u alice -- salloc -Q -w n1 -n8 --overcommit python3 - "
            f"127.0.0.1:${{BERTH_BOX_REGISTRY_PORT:-5000}}/debian:12 {3 if options.short else 20} < {HERE}/srun.py"]

    @staticmethod
    def rows(text, _):
        found = re.findall(r"^(\d+) tasks, (plain|by tag|by digest) +([\d.]+) ms", text, re.M)
        median = {(tasks, kind): float(value) for tasks, kind, value in found}
        for kind in "by digest", "by tag":
            for tasks in "1", "8":
                if (tasks, kind) in median:
                    yield row(f"`srun true`, {kind}, tasks: {tasks}", median[tasks, kind],
                        [("without a container", median[tasks, "plain"])], milliseconds)


class Io:
    command = "make bench-io SCALE=0.7"
    needs = "mksquashfs", "squashfuse_ll"
    labels = (("find", 0, "`find` over the names, cold"), ("find", 1, "the same, again"),
        ("import", 0, "importing 1,500 Python modules, cold"), ("sequential", 0, "reading 400 MB in sequence"),
        ("random4k", 0, "reading 4 KiB at random"))

    @staticmethod
    def words(options):
        return ["python3", f"{HERE}/io.py", f"{options.build}/berth-pull", f"{options.build}/tests/serve", "--json",
            f"{options.out}/io.json", "--user", options.user,
            *(["--scale", "0.1", "--runs", "1"] if options.short else ["--scale", "0.7"])]

    @classmethod
    def rows(cls, _, out):
        table = load(out, "io")["seconds, or operations a second"]
        for work, again, label in cls.labels:
            values = {kind: numbers[min(again, len(numbers) - 1)] for kind, numbers in table[work].items()}
            form = (lambda value: f"{value:,.0f} a second") if work == "random4k" else seconds
            yield row(label, values["berth, overlay"], [("the kernel's squashfs", values["kernel squashfs"]),
                ("squashfuse_ll", values.get("squashfuse_ll"))], form)


class Import:
    command = "make bench-import"
    needs = "debootstrap", "bwrap", "squashfuse_ll"

    @staticmethod
    def words(options):
        more = ["--small", "--turns", "1", "--load", "1", "--at-once", "0"] if options.short else ["--turns", "15"]
        return ["python3", f"{HERE}/import.py", options.build, "--json", f"{options.out}/import.json", "--user",
            options.user, *more]

    @staticmethod
    def rows(text, out):
        table = {name: turns for name, turns in load(out, "import").items() if turns}
        middle = {key: {name: statistics.median(turn[key] for turn in turns) for name, turns in table.items()}
            for key in ("wall", "all cpu")}
        for name, label in (("first", "importing PyTorch, pandas and the like, in the first container"),
                ("ahead", "from the second container on"), ("store", "from the third on"),
                ("file", "the same, of a .sqsh")):
            for key, what in (("wall", ""), ("all cpu", ": CPU with the file server")):
                if name in table and "node" in table:
                    yield row(label + what, middle[key][name], [("on the node", middle[key]["node"]),
                        ("squashfuse_ll", middle[key].get("squashfuse"))], seconds)
        if found := re.search(r"PSS 10 s after the last read: ([\d.]+) MB", text):
            yield "what the file server keeps in memory 10 s after it", "", f"{found.group(1)} MB", ""


class Image:
    command = "make bench-image SCALE=1"
    needs = "igzip", "tar2sqfs", "docker-registry", "skopeo", "ch-image", "podman"

    @staticmethod
    def words(options):
        return as_user(options, ["python3", f"{HERE}/image.py", f"{options.build}/berth-pull", "--scale",
            "0.05" if options.short else "1", "--cache", f"{options.out}/cache", "--json", f"{options.out}/image.json"])

    @staticmethod
    def rows(_, out):
        table = {name: values["wall"] for name, values in load(out, "image").items()}
        converted = [("converted", table["berth, cold"])]
        yield row("a cold pull", table["berth, cold"], [(name, table.get(name)) for name in ("podman pull",
            "ch-image pull")], seconds)
        yield row("the same, published", table["berth, published"], converted, seconds)
        yield row("the same, published and signed", table["berth, signed"], converted + [("curl, openssl and dd",
            table.get("curl, openssl, dd"))], seconds)


class Early:
    command = "make bench-early"
    needs = "docker-registry", "skopeo", "tc", "ip"

    @staticmethod
    def words(options):
        return ["python3", f"{HERE}/early.py", f"{options.build}/berth", "--json", f"{options.out}/early.json",
            *(["--scale", "0.05", "--rounds", "1"] if options.short else [])]

    @staticmethod
    def rows(_, out):
        middle = {name: sorted(one["ready"] for one in runs)[len(runs) // 2]
            for name, runs in load(out, "early").items()}
        yield row("1,500 Python modules over 1 Gb/s, early, with a profile", middle["profile"],
            [("complete first", middle["complete"]), ("from the store", middle["warm"])], seconds)


BENCHMARKS = {"start": Start, "srun": Srun, "io": Io, "import": Import, "image": Image, "early": Early}


def load(out, name):
    with open(f"{out}/{name}.json", encoding="ascii") as file:
        return json.load(file)


def as_user(options, command):
    """With a home, a folder for sockets and logins, and an environment of its own: those of the caller may be root's,
    or steer a peer."""
    user = pwd.getpwnam(options.user)
    home = f"{options.out}/home"
    os.makedirs(home, mode=0o700, exist_ok=True)
    os.chown(home, user.pw_uid, user.pw_gid)
    return ["setpriv", "--reuid", options.user, "--regid", str(user.pw_gid), "--clear-groups", "--", "env", "-i",
        "PATH=/usr/local/bin:/usr/bin:/bin", f"HOME={home}", f"XDG_RUNTIME_DIR={home}", f"USER={options.user}",
        *command]


def measured(name, options):
    """The rows of a benchmark; None when it failed."""
    log = f"{options.out}/{name}.log"
    print(f"bench-readme: {name}: its output is in {log}", file=sys.stderr, flush=True)
    with open(log, "w", encoding="utf-8") as file:
        code = subprocess.run(BENCHMARKS[name].words(options), stdout=file, stderr=subprocess.STDOUT, cwd=CHECKOUT,
            stdin=subprocess.DEVNULL, check=False).returncode
    if code != 0:
        return None
    with open(log, encoding="utf-8") as file:
        return list(BENCHMARKS[name].rows(file.read(), options.out))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build", type=os.path.abspath)
    options.add_argument("--short", action="store_true")
    options.add_argument("--only", default=",".join(BENCHMARKS))
    options.add_argument("--user", default="nobody")
    options.add_argument("--out", type=os.path.abspath)
    options = options.parse_args()
    options.out = options.out or f"{options.build}/bench-readme"
    os.makedirs(f"{options.out}/cache", exist_ok=True)
    for folder in options.out, f"{options.out}/cache":
        os.chmod(folder, 0o1777)
    names = options.only.split(",")
    if unknown := set(names) - set(BENCHMARKS):
        sys.exit(f"readme.py: --only: {', '.join(sorted(unknown))} is none of {', '.join(BENCHMARKS)}")
    failed = []
    missing = {need for name in names for need in BENCHMARKS[name].needs
        if not shutil.which(need, path=os.environ["PATH"] + ":/usr/sbin:/sbin")}
    if missing:
        sys.exit(f"readme.py: not installed: {', '.join(sorted(missing))}; see the beginning of this file")
    print(f"{datetime.date.today():%d %B %Y}, {os.cpu_count()} CPUs, Linux {os.uname().release}, load "
          f"{os.getloadavg()[0]:.1f} at the start{'; SHORT: no figures' if options.short else ''}\n")
    print("| | ratio | berth | beside | command |\n|---|---|---|---|---|", flush=True)
    for name in names:
        rows = measured(name, options)
        if rows is None:
            failed.append(name)
        for cells in rows or []:
            print(f"| {' | '.join(cells)} | `{BENCHMARKS[name].command}` |", flush=True)
    if failed:
        sys.exit(f"bench-readme: not measured: {', '.join(failed)}; see {options.out}/NAME.log")


if __name__ == "__main__":
    main()
