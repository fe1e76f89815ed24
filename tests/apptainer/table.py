#!/usr/bin/env python3
"""The cases of Apptainer's own tests: table.py page prints docs/apptainer-tests.md."""

import sys
import tomllib
from pathlib import Path

FOLDER = Path(__file__).parent
# In the order of the page, with what each is about.
TABLES = {"actions": "exec, run, shell, pipes, exit codes, networks", "regressions": "what once went wrong there",
    "binds": "--bind, --mount, --home, --workdir, --scratch", "overlay": "--overlay, --writable",
    "env": "variables", "pull": "pull", "push": "push, and pull of what was pushed",
    "instance": "instances", "inspect": "inspect", "verify": "verify", "key": "key"}


def expanded(case):
    """A case for each of `with`, whose words take the places of {} in turn."""
    if "with" not in case:
        return [case]
    out = []
    for words in case["with"]:
        run = case["run"]
        for word in words:
            run = run.replace("{}", word, 1)
        out.append(case | {"run": run, "with": [], "name": " ".join(filter(None, words))})
    return out


def tables():
    return {name: tomllib.loads((FOLDER / f"{name}.toml").read_text()) for name in TABLES}


def cases(quick=False):
    """All of them, each with its table's name; quick: of each that is marked the first one."""
    for name, table in tables().items():
        for case in table["case"]:
            if case.get("quick") or not quick:
                yield from ((name, one) for one in expanded(case)[:1 if quick else None])


def cell(text):
    return text.replace("|", "\\|").replace("\n", "; ")


def page():
    yield (FOLDER / "page.md").read_text()
    counts, rows, outside = [], [], []
    for name, table in tables().items():
        runs = [one for case in table["case"] for one in expanded(case)]
        differing = [one for one in runs if "differs" in one]
        counts.append((name, len(runs), len(runs) - len(differing)))
        rows += [(name, case["of"], len(expanded(case)), case["differs"]) for case in table["case"]
            if "differs" in case]
        outside += [(name, case["of"], case["why"]) for case in table.get("outside", [])]
    for name, runs, same in counts:
        yield f"| {name}.toml | {TABLES[name]} | {runs} | {same} |\n"
    runs, same = sum(count[1] for count in counts), sum(count[2] for count in counts)
    yield f"| all | | {runs} | {same}, {100 * same // runs}% |\n"
    yield "\n## Cases that come out otherwise\n\n| table | their name | runs | what comes out here, and why |\n"
    yield "|---|---|---|---|\n"
    for name, of, number, why in rows:
        yield f"| {name} | {cell(of)} | {number} | {cell(why)} |\n"
    yield "\n## Cases that are not run\n\n| table | their name | they |\n|---|---|---|\n"
    for name, of, why in outside:
        yield f"| {name} | {cell(of)} | {cell(why)} |\n"


if __name__ == "__main__":
    sys.stdout.write("".join(page()))
