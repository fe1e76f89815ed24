#!/usr/bin/env python3
"""Runs the cases of the tables in a box that is up: run.py [--quick] [PATTERN...]. Prints TAP.

BERTH_BOX_DIR and BERTH_BOX_REGISTRY_PORT name the box. With patterns, the cases whose names have one of them.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import images
from table import cases

BOX = Path(os.environ.get("BERTH_BOX_DIR", "/var/tmp/berth-box"))
REGISTRY = "127.0.0.1:" + os.environ.get("BERTH_BOX_REGISTRY_PORT", "5000")
SECONDS = 60 * int(os.environ.get("BERTH_TEST_SLOWNESS", "1"))
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# A folder of each case's own, with what the cases bind.
PRELUDE = """cd ~/e2e && { chmod -R u+rwx w 2> /dev/null; rm -rf w; } && mkdir -p w/canary w/home w/work &&
touch w/canary/file w/canary/file,comma w/canary/file:colon || exit 99
"""
# What of /proc is covered on this machine may keep processes of its own from a container: PATH_OF_SCRIPT is run with a
# /proc of which all is seen.
WITH_PROC = """mount -t proc proc /proc && exec setpriv --reuid alice --regid alice --init-groups \
env HOME=/home/alice USER=alice bash "$1" """


def enter(user, *words, **more):
    return subprocess.run([BOX / "lib/enter_box", "login", BOX, user, "", *words], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=SECONDS, **more)


def filled(text):
    for word, value in {"registry": REGISTRY, "path": DEFAULT_PATH, "uid": images.uid(enter),
            "digest": images.digest(REGISTRY)}.items():
        text = text.replace(f"@{word}@", value)
    return text


def run(case):
    script = PRELUDE + filled(case["run"])
    if not case.get("proc"):
        return enter("alice", "bash", "-c", script)
    path = BOX / "home/alice/e2e/script"
    path.write_text(script)
    return enter("root", "unshare", "--mount", "--propagation", "private", "bash", "-c", WITH_PROC, "bash",
        "/home/alice/e2e/script")


def failure(case):
    """What went wrong, or nothing."""
    try:
        done = run(case)
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    said = f"{case['run']}\nexit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    # `echo` of nothing is an empty output.
    output = done.stdout.removesuffix("\n")
    if done.returncode != case.get("code", 0):
        return f"expected the exit code {case.get('code', 0)}\n{said}"
    if "out" in case and output != filled(case["out"]):
        return f"expected the output {filled(case['out'])!r}\n{said}"
    if "says" in case and not re.search(case["says"], done.stderr, re.MULTILINE):
        return f"nothing on standard error is like {case['says']!r}\n{said}"
    if "none" in case and re.search(case["none"], done.stdout + done.stderr):
        return f"{case['none']!r} is there\n{said}"
    return ""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="those alone that run in every run of the tests")
    options.add_argument("pattern", nargs="*")
    given = options.parse_args()
    named = [(f"{table}: {case['of']}" + (f": {case['name']}" if case.get("name") else ""), case)
        for table, case in cases(given.quick)]
    chosen = [(name, case) for name, case in named
        if not given.pattern or any(word in name for word in given.pattern)]
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    with images.made(enter, BOX, REGISTRY):
        for number, (name, case) in enumerate(chosen, 1):
            wrong = failure(case)
            print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
            print("".join(f"# {line}\n" for line in wrong.splitlines()), end="", flush=True)
            failed += bool(wrong)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
