"""Whether each command of a page of the documents is typed by the tests, and typing them: typed.py check PAGE...,
typed.py type STATE REGISTRY PAGE.

PAGE.toml tells for each command of PAGE.md how it is typed and what comes out; README.md here has its words.
"""

import os
import re
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

import reader
from terminal import Silence, Terminal, PROMPT

HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent
# What a busy machine has more of (tests/slurm/helper.bash): lines about waiting, and of progress.
NOISE = os.environ.get("BERTH_NOISE", "")
STEP_WORDS = {"line", "do", "typed", "file", "as", "at", "code", "out", "none", "says", "answers", "keep"}


def page_of(name):
    return CHECKOUT / ("README.md" if name == "README" else f"docs/{name}.md")


def table_of(name):
    return tomllib.loads((HERE / f"{name}.toml").read_text())


def not_typed(table):
    return [line for reason in table.get("not_typed", []) for line in reason["lines"]]


def faults(page, table):
    """What of a page is not in its table, and what of the table is not in the page."""
    blocks, spans = reader.read(page)
    texts = {text["line"] for text in table.get("text", [])}
    files = {step["line"] for step in table.get("step", []) if "file" in step}
    steps = Counter(step["line"] for step in table.get("step", []) if "line" in step and "file" not in step)
    left_out = set(not_typed(table))
    needed = Counter()
    known_texts = set()
    for block in blocks:
        if known := (texts | files) & set(block.content):
            known_texts |= known
        else:
            needed.update(line.text for line in block.commands if line.text not in left_out)
    in_blocks = [line for block in blocks for line in block.commands]
    for line in in_blocks + spans:
        if needed[line.text] > steps[line.text] or (
                not line.in_block and line.text not in steps and line.text not in left_out):
            yield f"{page.name}:{line.number}: no test types it, and no reason is given: {line.text}"
            needed[line.text] = 0
    there = {line.text for line in in_blocks + spans}
    for line in [*steps, *left_out]:
        if line not in there:
            yield f"{page.name} has no such command any more: {line}"
    for line in set(steps) & left_out:
        yield f"{page.name}: it is typed, and a reason is given why not: {line}"
    for text in (texts | files) - known_texts:
        yield f"{page.name} has no block with this line any more: {text}"
    prose = " ".join(page.read_text().replace("`", "").split())
    for step in table.get("step", []):
        if unknown := set(step) - STEP_WORDS:
            yield f"{page.name}: words of a step that mean nothing: {unknown}"
        if "says" in step and step["says"] not in prose:
            yield f"{page.name} does not say: {step['says']}"
        if not {"out", "none", "says"} & set(step) and "line" in step and not {"code", "file"} & set(step):
            yield f"{page.name}: nothing is expected of: {step['line']}"


class Typist:
    """Types the steps of a page, each to a shell of its user and place."""

    def __init__(self, state, registry, page, table):
        self.state = state
        self.blocks, _ = reader.read(page)
        self.table = table
        common = tomllib.loads((HERE / "common.toml").read_text())
        self.placeholders = common["placeholders"] | table.get("placeholders", {})
        host, port = registry.split(":")
        # The second one asks for a login (tests/registry/challenging.py).
        self.own = {"@registry@": registry, "@asking@": f"{host}:{int(port) + 997}", "@state@": state,
            "@forwarded@": str(int(port) + 990), "@sshd@": str(int(port) + 991),
            "@other@": str(int(port) + 992)}
        self.shells = {}
        # Between two steps of an allocation srun may wait twice as long as MessageTimeout (60 s in the box).
        self.patience = int(os.environ.get("BERTH_DOCUMENTS_PATIENCE", "300")) * \
            int(os.environ.get("BERTH_TEST_SLOWNESS", "1"))

    def filled(self, text):
        """With what stands for the placeholders, the longest first."""
        names = sorted(self.placeholders, key=len, reverse=True)
        pattern = "|".join((r"(?<!\w)" if name[0].isalnum() else "") + re.escape(name) +
            (r"(?!\w)" if name[-1].isalnum() else "") for name in names)
        text = re.sub(pattern, lambda found: self.placeholders[found[0]], text) if names else text
        for name, value in self.own.items():
            text = text.replace(name, value)
        return text

    def shell(self, user, place):
        if (user, place) not in self.shells:
            self.shells[user, place] = Terminal(self.command(user, place), self.patience)
        return self.shells[user, place]

    def command(self, user, place):
        bash = ["env", *(f"{name}={value}" for name, value in PROMPT.items()), "TERM=dumb", "bash", "--noediting", "-i"]
        if place == "checkout":
            return bash[:1] + ["-C", str(CHECKOUT)] + bash[1:]
        enter, login = f"{self.state}/lib/enter_box", [self.state, user, f"/home/alice/documents"]
        if place == "login":
            return [enter, "login", *login, *bash]
        slurmd = f"$(pgrep -f 'slurmd .*-N {place}( |$)' | head -n 1)"
        return [enter, "login", self.state, "root", "", "bash", "-c",
            f'exec nsenter -t {slurmd} -m -u -- "$@"', "bash", enter, "login-here", *login, *bash]

    def text_of(self, step):
        """What is typed. A block that is a file's content is typed as one that a shell writes."""
        if "file" in step:
            content = next(block.content for block in self.blocks if step["line"] in block.content)
            return self.filled("\n".join([f"cat > {step['file']} << 'END_OF_FILE'", *content, "END_OF_FILE"]))
        return self.filled(step.get("typed") or step.get("line") or step["do"])

    def run(self, step):
        """Types a step; returns what is wrong."""
        text = self.text_of(step)
        answers = [(self.filled(asked), self.filled(answer)) for asked, answer in step.get("answers", [])]
        shell = self.shell(step.get("as", "alice"), step.get("at", "login"))
        code, output = shell.type(text, answers)
        output = "\n".join(line for line in output.split("\n") if not NOISE or not re.search(NOISE, line))
        if "keep" in step:
            self.placeholders[step["keep"]] = output.strip().splitlines()[-1] if output.strip() else ""
        self.output = output
        wanted = step.get("code", 0)
        is_wanted = code in (wanted if isinstance(wanted, list) else [wanted])
        wrong = [] if is_wanted else [f"exit code {code}, not {wanted}"]
        if not re.search(self.filled(step.get("out", "")), output, re.MULTILINE):
            wrong.append(f"nothing matches {self.filled(step['out'])}")
        if "none" in step and (found := re.search(self.filled(step["none"]), output, re.MULTILINE)):
            wrong.append(f"there is '{found[0]}'")
        if "says" in step and self.filled(step["says"]) not in " ".join(output.split()):
            wrong.append(f"it does not say: {step['says']}")
        return f"typed: {text}\n" + "\n".join(wrong) + f"\noutput:\n{output}" if wrong else ""

    def close(self):
        for shell in self.shells.values():
            shell.close()

    def run_all(self):
        typed = 0
        for step in self.table["step"]:
            name, began = step.get("line", step.get("do")), time.monotonic()
            try:
                wrong = self.run(step)
            except Silence as silence:
                wrong = f"typed: {self.text_of(step)}\n{silence}"
            if wrong:
                return typed, f"{name}\n{wrong}"
            typed += "line" in step
            if os.environ.get("BERTH_DOCUMENTS_SHOW"):
                print(f"{time.monotonic() - began:.1f} s: {name}\n{self.output}", flush=True)
        return typed, ""


def check(names):
    found = [fault for name in names for fault in faults(page_of(name), table_of(name))]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def type_page(state, registry, name):
    table = table_of(name)
    typist = Typist(state, registry, page_of(name), table)
    try:
        typed, wrong = typist.run_all()
    finally:
        typist.close()
    print(f"{name}.md: {typed} commands typed, {len(not_typed(table))} not")
    if wrong:
        print(wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(check(sys.argv[2:]) if sys.argv[1] == "check" else type_page(*sys.argv[2:]))
