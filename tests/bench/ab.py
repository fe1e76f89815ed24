#!/usr/bin/env python3
"""Compares builds of berth, or one build under several settings, in one run: in turns, in random order, medians and
ratios to the first. This is what decides whether a mechanism earns its keep (docs/adr).

usage: ab.py start|io [--runs N] [--cpus LIST] [--works W,W] NAME=BUILD[:VARIABLE=VALUE]... NAME=...
start: `berth run` of an image in the store and of a .sqsh, as the caller, who is an ordinary user. io: reading under
the overlay (see io.py), as root, with BUILD/tests/serve. --cpus is for taskset, for example 0 for one CPU.
"""
import argparse
import importlib.util
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time

import start

HERE = os.path.dirname(os.path.abspath(__file__))


def load_io():
    """The io.py beside this file, whose name is also that of a module of Python."""
    spec = importlib.util.spec_from_file_location("bench_io", os.path.join(HERE, "io.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Contestant:
    def __init__(self, text):
        self.name, _, rest = text.partition("=")
        build, *settings = rest.split(":")
        self.build = os.path.abspath(build)
        self.settings = settings

    def command(self, words, cpus):
        pinned = ["taskset", "-c", cpus] if cpus else []
        return pinned + ["env", *self.settings, *words]


def show(title, values, first):
    base = statistics.median(values[first])
    print(f"\n{title}")
    for name, figures in values.items():
        middle = statistics.median(figures)
        quartiles = statistics.quantiles(figures, n=4) if len(figures) > 3 else [min(figures), middle, max(figures)]
        print(f"  {name:24}{middle:12.3f}{middle / base:8.3f}x   quartiles {quartiles[0]:.3f} {quartiles[2]:.3f}   "
              f"least {min(figures):.3f}   {len(figures)} runs")


def turns(contestants, runs, once):
    values = {one.name: [] for one in contestants}
    for _ in range(runs):
        for one in random.sample(contestants, len(contestants)):
            values[one.name].append(once(one))
    return values


def compare_starts(options, contestants):
    with tempfile.TemporaryDirectory(prefix="berth-ab-") as folder:
        os.environ["BERTH_STORE_PATH"] = folder + "/store"
        scene = start.Scene(folder, contestants[0].build + "/tests/inside")
        images = {"store": scene.small, ".sqsh": scene.squashfs()}
        time.sleep(start.SETTLED_SECONDS)
        for title, image in images.items():
            cpu = {one.name: [] for one in contestants}

            def once(one, image=image, cpu=cpu):
                words = [one.build + "/berth", "run", image, *start.COMMAND]
                wall, used = start.once(one.command(words, options.cpus))
                cpu[one.name].append(used)
                return wall

            for one in contestants:
                once(one)
            show(f"berth run, {title}: ms", turns(contestants, options.runs, once), contestants[0].name)
            show(f"berth run, {title}: ms of CPU", cpu, contestants[0].name)


def compare_reading(options, contestants):
    reading = load_io()
    options.pull = contestants[0].build + "/berth-pull"
    work = reading.prepare(options)
    with open(os.path.join(work, "ready"), encoding="ascii") as file:
        image = file.read()
    with tempfile.TemporaryDirectory(prefix="stores-", dir=work) as stores:
        shutil.chown(stores, options.user)
        for one in contestants:
            # Each build has a store of its own making: builds that are far apart cannot read each other's.
            fill = [one.build + "/berth-pull", "--store", f"{stores}/{one.name}", image]
            subprocess.run(reading.as_user(options.user, fill), check=True, stdout=subprocess.DEVNULL)
        compare_works(options, contestants, reading, image, stores)


def compare_works(options, contestants, reading, image, stores):
    for name in options.works.split(","):
        again = {one.name: [] for one in contestants}

        def once(one, name=name, again=again):
            words = [one.build + "/tests/serve", "overlay", f"{stores}/{one.name}", image, "/usr/bin/python3", "-I",
                     f"{HERE}/io_work.py", name]
            figures, _ = reading.figures(reading.as_user(options.user, one.command(words, options.cpus)))
            again[one.name].append(figures[1])
            return figures[0]

        unit = "operations a second" if name == "random4k" else "seconds"
        show(f"{name}: {unit}", turns(contestants, options.runs, once), contestants[0].name)
        show(f"{name} again: {unit}", again, contestants[0].name)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("what", choices=["start", "io"])
    options.add_argument("contestants", nargs="+")
    options.add_argument("--runs", type=int, default=20)
    options.add_argument("--cpus", default="")
    options.add_argument("--works", default="find,findstat,import,random4k")
    options.add_argument("--scale", type=float, default=0.3)
    options.add_argument("--user", default="nobody")
    options.add_argument("--cache", default="/var/tmp/berth-bench")
    options = options.parse_args()
    contestants = [Contestant(text) for text in options.contestants]
    print(f"load {os.getloadavg()[0]:.1f}, CPUs {options.cpus or 'all'}")
    compare_starts(options, contestants) if options.what == "start" else compare_reading(options, contestants)


if __name__ == "__main__":
    main()
