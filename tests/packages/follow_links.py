#!/usr/bin/env python3
"""Follows each link of the documents in a folder: follow_links.py FOLDER prints those that lead nowhere, and ends with
1 when there is one. A link leads to a file, and behind a # to a heading of it; what has a scheme is left out."""
import os
import re
import sys

LINK = re.compile(r"(?<!`)!?\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)"
                  r"|<img[^>]*src=\"([^\"]+)\"|<a[^>]*href=\"([^\"]+)\"")


def text_of(path):
    """The document without blocks of code, in which nothing is a link."""
    with open(path, encoding="utf-8") as file:
        return re.sub(r"^```.*?^```", "", file.read(), flags=re.M | re.S)


def anchors(path):
    """As GitHub makes them of headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", text_of(path), flags=re.M):
        word = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        number = 1
        name = word
        while name in found:
            name = f"{word}-{number}"
            number += 1
        found.add(name)
    return found


def documents(folder):
    for at, _, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith(".md"):
                yield os.path.join(at, name)


def broken(folder):
    for path in sorted(documents(folder)):
        for found in LINK.findall(text_of(path)):
            link = next(filter(None, found))
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            outside = os.path.relpath(target, folder).startswith("..")
            if outside or not os.path.exists(target):
                yield path, link
            elif anchor and target.endswith(".md") and anchor not in anchors(target):
                yield path, link


def main():
    folder = sys.argv[1]
    count = sum(1 for path in documents(folder) for _ in LINK.findall(text_of(path)))
    if count == 0:
        sys.exit(f"{folder}: there is no document with a link")
    lost = list(broken(folder))
    for path, link in lost:
        print(f"{os.path.relpath(path, folder)}: {link}")
    sys.exit(1 if lost else 0)


main()
