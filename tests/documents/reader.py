"""What of a page of the documents is there to be typed: the lines of its indented blocks, and its spans of code that
begin with a program's name or stand in a table's column of things to write or run."""

import re
from dataclasses import dataclass
from pathlib import Path

# A span of code outside of blocks is a command line if it begins with one of these and says something to it.
PROGRAMS = """apptainer apt berth code dnf docker du grep make mv nextflow pdsh podman rm rsync sacct salloc sbatch
scancel scontrol scp singularity scripts/[a-z-]+ sinfo snakemake squeue srun ssh ssh-copy-id ssh-keygen systemctl
useradd""".split()
COMMAND = re.compile(rf"(\w+=\S* )*({'|'.join(PROGRAMS)}) \S")
COLUMNS = {"run", "write"}
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")


@dataclass
class Line:
    number: int
    text: str
    in_block: bool


@dataclass
class Block:
    content: list
    commands: list


def blocks(lines):
    """Indented blocks as (number of the first line, lines without the indent): after a blank line, deeper than the
    paragraph or list item before it."""
    item, at = 0, 0
    while at < len(lines):
        text = lines[at]
        indent = len(text) - len(text.lstrip())
        after_blank = at == 0 or not lines[at - 1].strip()
        marker = re.match(r"(\s*)([-*]|\d+\.) +(?=\S)", text)
        if text.strip() and after_blank and indent >= item + 4:
            end = at
            while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) >= indent):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            yield at, [line[indent:] for line in lines[at:end]]
            at = end
            continue
        if marker and marker[1] == "":
            item = len(marker[0])
        elif text.strip() and indent < item and after_blank:
            item = 0
        at += 1


def commands(first, block):
    """The commands of a block: lines with those that continue them, and here-documents."""
    at = 0
    while at < len(block):
        start, text = at, block[at]
        while text.endswith("\\") and at + 1 < len(block):
            at += 1
            text += "\n" + block[at]
        word = re.search(r"<<-? *'?\"?(\w+)", text)
        while word and at + 1 < len(block) and (at == start or block[at] != word[1]):
            at += 1
            text += "\n" + block[at]
        at += 1
        if text.strip() and not text.startswith("# "):
            yield Line(first + start + 1, text, True)


def paragraphs(lines, taken):
    """Text outside of blocks as (number of the first line, text): a span may go on in the next line."""
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and end not in taken and lines[end].strip() and not lines[end].startswith("|"):
            end += 1
        yield at, " ".join(line.strip() for line in lines[at:end])
        at = max(end, at + 1)


def columns(lines):
    """Cells of tables that are there to be written or run, as (number of the line, cell)."""
    heads = []
    for number, text in enumerate(lines):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", text)[1:-1]] if text.startswith("|") else []
        heads = (heads or cells) if cells else []
        yield from ((number, cell, head in COLUMNS) for head, cell in zip(heads, cells))


def spans(lines, taken):
    found = [(number, span) for number, text in paragraphs(lines, taken) for span in SPAN.findall(text)
        if COMMAND.match(span)]
    found += [(number, span.replace("\\|", "|")) for number, cell, to_write in columns(lines)
        for span in SPAN.findall(cell) if to_write or COMMAND.match(span)]
    return [Line(number + 1, span, False) for number, span in sorted(found, key=lambda item: item[0])]


def read(page):
    """The blocks of a page, and its spans that are commands."""
    lines = Path(page).read_text().splitlines()
    found = [Block(content, list(commands(first, content))) for first, content in blocks(lines)]
    taken = {first + offset for first, content in blocks(lines) for offset in range(len(content))}
    return found, spans(lines, taken)
