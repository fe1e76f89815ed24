#!/usr/bin/env python3
"""The table of programs: table.py packages [--quick] prints what they need, table.py page what docs/programs.md has."""

import sys
import tomllib
from pathlib import Path

FOLDER = Path(__file__).parent
# In the order of the page.
TABLES = ["files", "processes", "languages", "python", "parallel", "servers", "tools", "installed", "namespaces"]
WAYS = {"user": "the user", "root": "root (`--root`)", "nested": "the user, `--container-nested`",
    "keyrings": "the user, `security.seccomp_allow = \"keyctl add_key request_key\"`"}


def programs(quick=False):
    tables = [tomllib.loads((FOLDER / f"{name}.toml").read_text())["program"] for name in TABLES]
    return [program for table in tables for program in table if program.get("quick") or not quick]


def packages(quick):
    return sorted({package for program in programs(quick) for package in program.get("package", [])})


def page():
    yield (FOLDER / "page.md").read_text()
    for program in programs():
        name, packages = program["name"].replace("|", "\\|"), ", ".join(program.get("package", [])) or "-"
        run = "every run" if program.get("quick") else "by hand"
        row = [name, packages, WAYS[program.get("as", "user")], program.get("enroot", "the same"), run]
        yield "| " + " | ".join(row) + " |\n"


def main():
    if sys.argv[1] == "packages":
        print("\n".join(packages("--quick" in sys.argv)))
    else:
        sys.stdout.write("".join(page()))


if __name__ == "__main__":
    main()
