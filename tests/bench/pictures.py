#!/usr/bin/env python3
"""Pictures of cold starts of one image on N nodes, as `berth report` draws them: each node for itself, together, of
published layers, and early. And a table of them.

usage: pictures.py FOLDER [--nodes N] [--rate MBIT] [--delay MS] [--scale S] [--cache DIR]

To be run as root. The nodes are those of scripts/slurm-in-a-box, on this machine, in a box of its own. Image and
registry are those of early.py: nodes reach one another at the machine's speed, the registry behind a link of its own.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import early
import image

BOX = os.path.join(os.path.dirname(__file__), "../../scripts/slurm-in-a-box")
PYTHON = ["/usr/bin/python", "-B", "/opt/ready.py"]
# What each adds to the site's file.
SCENES = {
    "alone": "each node for itself",
    "together": "together (`share.enabled`)",
    "published": "together, of published and signed layers (`share.artifacts`)",
    "early": "the same, early (`store.start`)",
}


def box(*words, **options):
    return subprocess.run([BOX, *words], check=True, **options)


def as_alice(*words, **options):
    return box("run", "-u", "alice", "--", *words, **options)


def write_site(scene, registry, work):
    """The site's file of all nodes, which is the same on all of them."""
    published = scene in ("published", "early")
    lines = [
        "[store]", f'start = "{"early" if scene == "early" else "complete"}"',
        f'[registry."{registry}"]', "plain_http = true",
        "[events]", f'log = "{work}/events.jsonl"',
        "[share]", f"enabled = {str(scene != 'alone').lower()}",
        *([f'artifacts = "{registry}/layers"', "[policy]", f'signatures = "{work}/policy.json"'] if published else []),
    ]
    box("run", "--", "tee", "/etc/berth/berth.conf", input="\n".join(lines) + "\n", text=True,
        stdout=subprocess.DEVNULL)


def images(state):
    """How many nodes have the whole image."""
    found = box("run", "--", "sh", "-c", f"ls -d {state}/nodes/*/store/*/images/* 2>/dev/null | wc -l",
        capture_output=True, text=True)
    return int(found.stdout)


def run_scene(scene, registry, nodes, state, work):
    """The row of a step of all nodes whose tasks end when every node has the whole image."""
    box("run", "--", "sh", "-c", f"rm -rf {state}/nodes/*/store/*; install -m 0666 /dev/null {work}/events.jsonl")
    write_site(scene, registry, work)
    subprocess.run(["sh", "-c", "sync; echo 1 > /proc/sys/vm/drop_caches"], check=True)
    name = registry + "#ngc:base"
    bytes_before, begin, ready = early.counters(), time.perf_counter(), []
    with subprocess.Popen([BOX, "run", "-u", "alice", "--", "srun", f"-N{nodes}", f"--container-image={name}", *PYTHON],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as step:
        while len(ready) < nodes:
            line = step.stdout.readline()
            if not line.startswith("ready"):
                sys.exit(f"{scene}: {line!r}")
            ready.append(time.perf_counter() - begin)
        while images(state) < nodes:
            time.sleep(0.1)
        whole = time.perf_counter() - begin
        step.stdin.write("\n")
        step.stdin.close()
    return {"first": ready[0], "last": ready[-1], "whole": whole, "bytes": early.counters() - bytes_before}


def picture(scene, folder, work):
    """The one picture of the only job of the scene's events, as a file of its own."""
    job = next(json.loads(line)["job"] for line in open(f"{work}/events.jsonl", encoding="utf-8"))
    page = f"{work}/{scene}.html"
    as_alice("berth", "report", "--job", job.split(".")[0], "--html", page, f"{work}/events.jsonl")
    with open(page, encoding="utf-8") as file:
        found = re.search(r"<svg.*?</svg>\n", file.read(), re.DOTALL)
    with open(f"{folder}/{scene}.svg.new", "w", encoding="utf-8") as file:
        file.write(found.group())
    os.rename(f"{folder}/{scene}.svg.new", f"{folder}/{scene}.svg")


def measure(options, state, work):
    rows = {}
    os.chmod(work, 0o777)
    with early.far_registry(work, options.rate, options.delay) as (registry, shape):
        image.push(early.layout(options.cache, options.scale), f"{registry}/ngc:base")
        _, key = image.published_site(registry, work)
        os.chmod(key, 0o644)
        write_site("published", registry, work)
        as_alice("berth", "profile", "-q", f"{registry}/ngc:base", *PYTHON, stdin=subprocess.DEVNULL)
        as_alice("berth", "publish", "-q", "--sign", key, f"{registry}/ngc:base")
        shape()
        for scene in SCENES:
            rows[scene] = run_scene(scene, registry, options.nodes, state, work)
            picture(scene, options.folder, work)
    return rows


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=os.path.abspath)
    options.add_argument("--nodes", type=int, default=8)
    options.add_argument("--scale", type=float, default=0.1)
    options.add_argument("--cache", default="/var/tmp/berth-bench")
    options.add_argument("--rate", type=float, default=200)
    options.add_argument("--delay", type=float, default=20)
    options = options.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    os.makedirs(options.folder, exist_ok=True)
    # Beside whatever boxes there are.
    state = "/var/tmp/berth-pictures"
    os.environ.update(BERTH_BOX_DIR=state, BERTH_BOX_PORT="18917", BERTH_BOX_REGISTRY_PORT="6100")
    try:
        box("up", "--nodes", str(options.nodes))
        # What all nodes see.
        with tempfile.TemporaryDirectory(prefix="pictures-", dir=state) as work:
            rows = measure(options, state, work)
    finally:
        box("down")
    print("| | first ready, s | all ready, s | whole on all, s | from the registry, MB |\n|---|---|---|---|---|")
    for scene, row in rows.items():
        print(f"| {SCENES[scene]} | {row['first']:.1f} | {row['last']:.1f} | {row['whole']:.1f} "
              f"| {row['bytes'] / 1e6:.0f} |")


if __name__ == "__main__":
    main()
