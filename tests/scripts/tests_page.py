"""Prints where docs/tests.md is not what there is: tests_page.py PAGE. The exit code is 1 then."""

import fnmatch
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What is a test by its name. Other files beside them help these.
TESTS = ["tests/unit/*_test.cc", "tests/kernel/*_test.cc", "tests/hostile/*_test.cc", "tests/hostile/fuzz_*.cc",
    "tests/**/*.bats"]
NO_TESTS = {"hostile/fuzz_main"}
CODE = ["runtime/**/*.cc", "hooks/**/*.cc", "spank/*.cc"]


def short(path):
    """`unit/report` for tests/unit/report_test.cc."""
    name = re.sub(r"(_test)?\.(cc|bats|py|cu|hh)$", "", path.name)
    return str(path.parent.relative_to(ROOT / "tests") / name)


def found(patterns):
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern)})


def problems(page):
    # In tables alone, after their heads; the first cells are folders.
    cells = [[cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines() if line.startswith("| `")]
    text = page.split("| folder |")[1]
    named = set(re.findall(r"`([a-z]+/[\w*]+)`", re.sub(r"^\| [^|]*\|", "|", text, flags=re.M)))
    rows = {folder for row in cells for folder in re.findall(r"`([\w/]+)`", row[0])}
    files = {short(path): path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*") if path.is_file()}
    for name in sorted(named):
        if not fnmatch.filter(files, name):
            yield f"{name} is the name of no test"
    for path in found(TESTS):
        if short(path) not in NO_TESTS and not any(fnmatch.fnmatch(short(path), name) for name in named):
            yield f"{path.relative_to(ROOT)} has no row"
    for folder in sorted({str(path.parent.relative_to(ROOT)) for path in found(CODE)}):
        if folder not in rows:
            yield f"the folder {folder} has no row"


def main():
    out = list(problems(Path(sys.argv[1]).read_text()))
    print("\n".join(out), end="\n" if out else "")
    sys.exit(bool(out))


if __name__ == "__main__":
    main()
