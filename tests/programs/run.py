#!/usr/bin/env python3
"""Runs the programs of the table, each in a new container: run.py [OPTIONS] IMAGE [PATTERN...]

Prints TAP. Needs no rights. --build is the folder of berth; --runtime enroot takes the enroot of PATH in its place.
With patterns, the programs whose names have one of them.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from table import programs

SECONDS = 120 * int(os.environ.get("BERTH_TEST_SLOWNESS", "1"))

# What stands before each program's lines.
PRELUDE = """
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
await() { for _ in $(seq 300); do "$@" < /dev/null > /dev/null 2>&1 && return; sleep 0.1; done; return 1; }
cd "$(mktemp -d /tmp/programs.XXXXXX)"
"""


class Berth:
    OPTIONS = {"user": [], "root": ["--root"], "nested": ["--nested"], "keyrings": []}
    VARIABLES = {"keyrings": {"BERTH_SECURITY_SECCOMP_ALLOW": "keyctl add_key request_key"}}

    def __init__(self, build, image, folder):
        self.image = image
        self.command = [Path(build).resolve() / "berth", "run", "-q", "--rw", "--no-mount-home", "--workdir", "/tmp"]

    def words(self, way):
        return [*self.command, *self.OPTIONS[way], self.image]


class Enroot:
    OPTIONS = {"user": [], "root": ["--root"], "nested": [], "keyrings": []}
    VARIABLES = {}

    def __init__(self, build, image, folder):
        for name in ("cache", "data", "runtime"):
            os.environ[f"ENROOT_{name.upper()}_PATH"] = str(folder / name)
        # All in one: to unpack it takes minutes.
        subprocess.run(["enroot", "create", "-n", "x", image], check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    def words(self, way):
        return ["enroot", "start", "--rw", *self.OPTIONS[way], "x"]


def failure(program, words, variables):
    """What went wrong, or nothing."""
    # Not the test's own folders, which no container has.
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"} | variables
    script = PRELUDE + program["run"]
    try:
        done = subprocess.run([*words, "bash", "-ec", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=SECONDS, env=environment)
    except subprocess.TimeoutExpired as late:
        return f"no end after {SECONDS} s\n{(late.stdout or b'').decode(errors='replace')[-2000:]}"
    output = done.stdout.decode(errors="replace")
    said = output[-2000:] + done.stderr.decode(errors="replace")[-2000:]
    if done.returncode != 0:
        return f"exit code {done.returncode}\n{said}"
    if not any(re.fullmatch(program["expect"], line) for line in output.splitlines()):
        return f"no line is {program['expect']!r}\n{said}"
    return ""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", default="build")
    options.add_argument("--runtime", choices=["berth", "enroot"], default="berth")
    options.add_argument("--quick", action="store_true", help="those alone that run in every run of the tests")
    options.add_argument("image")
    options.add_argument("pattern", nargs="*")
    given = options.parse_args()
    chosen = [program for program in programs(given.quick)
        if not given.pattern or any(word in program["name"] for word in given.pattern)]
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="berth-programs.") as folder:
        runtime = {"berth": Berth, "enroot": Enroot}[given.runtime](given.build, given.image, Path(folder))
        for number, program in enumerate(chosen, 1):
            way = program.get("as", "user")
            wrong = failure(program, runtime.words(way), {"HOME": "/tmp"} | runtime.VARIABLES.get(way, {}))
            print(f"{'not ok' if wrong else 'ok'} {number} - {way}: {program['name']}")
            print("".join(f"# {line}\n" for line in wrong.splitlines()), end="", flush=True)
            failed += bool(wrong)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
