"""Writes layers of all odd kinds, to be published and pulled: remainder_layers.py OUT.

OUT/GROUP/NAME are blobs as a registry sends them; OUT/diff-ids has a line "SHA-256 GROUP/NAME" for each, of its tar
stream as it was before it was packed. No two blobs are the same. tests/unit/oci_remainder_layers_test.cc reads them.
"""

import bz2
import gzip
import hashlib
import lzma
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import layer_writers as w
from layer_writers import BLOCK, CHARACTER, DIRECTORY, END, FIFO, FILE, HARDLINK, SYMLINK, T, Entry, header, padded
from odd_layers import CASES, noise


def d(name, mode=0o755, **fields):
    return Entry(name, DIRECTORY, mode=mode, **fields)


def f(name, content="content", **fields):
    return Entry(name, FILE, content.encode() if isinstance(content, str) else content, **fields)


def s(name, target, **fields):
    return Entry(name, SYMLINK, target=target, mode=0o777, **fields)


def h(name, target):
    return Entry(name, HARDLINK, target=target)


def name_of(size):
    """A name of so many bytes, of parts that a file system has room for."""
    return ("n" * 63 + "/") * ((size - 1) // 64) + "z" * ((size - 1) % 64 + 1)


# Layers in words: each writer makes its own stream of each.
TREES = {
    "usual": [d("etc"), f("etc/os-release", "NAME=x\n"), d("usr"), d("usr/bin"), f("usr/bin/tool", noise(70_000),
        mode=0o755), s("bin", "usr/bin"), h("usr/bin/same", "usr/bin/tool")],
    "no-entries": [],
    "one-empty-file": [f("a", "")],
    "directories-alone": [d("a"), d("a/b", 0o700), d("c", 0o1777)],
    "sizes-around-a-tar-block": [f(f"s{size}", noise(size)) for size in (0, 1, 511, 512, 513, 1023, 1024, 1025)],
    "sizes-around-a-layer-block": [f(f"s{size}", noise(size)) for size in (131_071, 131_072, 131_073, 262_145)],
    "zeros": [f("few", bytes(100)), f("block", bytes(131_072)), f("many", bytes(700_001)),
        f("in-the-middle", b"a" + bytes(300_000) + b"z")],
    "many-small": [f(f"d{number % 7}/f{number}", f"{number}" * (number % 50)) for number in range(300)],
    "the-same-bytes": [f(name, noise(140_000)) for name in ("a", "b")] + [f(name, "tail") for name in ("c", "d")],
    **{f"name-of-{size}": [f(name_of(size), f"{size}"), s(f"l{size}", "t" * size)]
        for size in (98, 99, 100, 101, 102, 154, 155, 156, 157, 255, 256, 257, 1024, 4000)},
    "prefix-of-155": [f("p" * 155 + "/" + "n" * 100), f("q" * 155 + "/" + "n" * 99), d("p" * 150 + "/" + "m" * 101)],
    "part-of-255": [f("c" * 255), d("d" * 255), f("d" * 255 + "/" + "e" * 255)],
    "part-of-256": [f("c" * 256)],
    "name-of-5000": [f(name_of(5000))],
    "target-of-4095": [s("l", "t" * 4095)],
    "target-of-4096": [s("l", "t" * 4096)],
    "utf8": [f("caf\u00e9"), f("a\u0308/\u65e5\u672c"), d("\U0001f40b"), s("\u00fc", "\u00df"), f("\u00e9" * 60)],
    "other-bytes": [f("latin-\udce9"), f("\udcff\udcfe"), s("l\udce8", "t\udce9"), f("line\nend"), f("tab\t\x01\x7f"),
        f(" "), f("back\\slash"), f("per%cent=")],
    "dot-slash": [d("./"), f("./a"), d("./b/"), f("./b/c"), h("./h", "./a")],
    "absolute": [d("/"), d("/a/"), f("/a/b"), h("/h", "/a/b"), s("/s", "/a")],
    "spellings": [f("a//b"), f("./c/./d"), f("e/../f"), f("g/h/../../i"), d("j//"), f("/./k"), h("l", "a/./b")],
    "out-of-the-image": [f("../a")],
    "slash-behind-a-file": [f("a/"), f("b/", "")],
    "parents-missing": [f("a/b/c/d/e", "deep"), s("x/y/z", "a"), d("p/q")],
    "parents-later": [f("a/b", "1"), d("a", 0o711, uid=5), f("c/d/e", "2"), d("c/d", 0o700), d("c", 0o700, mtime=5)],
    "directories-twice": [d("a", 0o700), f("a/x"), d("a", 0o755, mtime=7), f("a/y"), d("a", 0o711, gid=9)],
    "deep": [f("/".join("d" * 200) + "/f", "x")],
    "whiteouts": [d("etc"), f("etc/.wh.gone", ""), f(".wh.all", ""), f("new/.wh.none", ""), f(".wh.full", "bytes")],
    "whiteout-and-file": [f("a", "1"), f(".wh.a", ""), f(".wh.b", ""), f("b", "2")],
    "opaque-first": [d("a"), f("a/.wh..wh..opq", ""), f("a/b")],
    "opaque-last": [d("a"), f("a/b"), f("a/.wh..wh..opq", ""), f("c/.wh..wh..opq", "")],
    "aufs": [f(".wh..wh.aufs", "x" * 600), f(".wh..wh.plnk/1", "y"), f("a"), h(".wh..wh.orph", "a")],
    "file-twice": [f("a", noise(5_000)), f("a", noise(9_000))],
    "file-twice-shorter": [f("a", noise(200_000)), f("a", "x"), f("b")],
    "file-twice-empty": [f("a", noise(200_000)), f("a", ""), f("b", ""), f("b", noise(600))],
    "file-twice-alike": [f("a", "same"), f("a", "same", mode=0o600)],
    "file-twice-same-size": [f("a", noise(200_000)), f("a", noise(200_000)[:-1] + b"!")],
    "file-three-times": [f("a", "1"), f("./a", "2"), f("/a", "3")],
    "file-then-directory": [f("a", "x" * 600), d("a"), f("a/b")],
    "file-then-parent": [f("a", "x" * 600), f("a/b", "y")],
    "file-then-link": [f("a", "x" * 600), s("a", "b"), f("b", "y")],
    "file-then-fifo": [f("a", "x" * 600), Entry("a", FIFO)],
    "directory-then-file": [d("a"), f("a/b", "x" * 600), f("a", "y")],
    "directory-then-link": [d("a"), f("a/b", "x" * 600), s("a", "c"), d("c"), f("a/d", "y")],
    "link-then-file": [s("a", "b"), f("b", "1"), f("a", "2")],
    "link-then-directory": [d("b"), s("a", "b"), d("a"), f("a/c")],
    "through-links": [d("usr"), d("usr/lib"), s("lib", "usr/lib"), s("l2", "lib"), f("lib/x", "1"), f("l2/y", "2"),
        h("l2/z", "lib/x")],
    "link-loop": [s("a", "b"), s("b", "a"), s("c", "c")],
    "hardlinks": [f("a", noise(150_000)), h("b", "a"), h("c", "b"), h("d/e", "c")],
    "hardlinks-of-an-empty-file": [f("a", ""), h("b", "a")],
    "hardlink-of-a-link": [f("a"), s("s", "a"), h("t", "s")],
    "hardlink-of-a-fifo": [Entry("p", FIFO), h("q", "p")],
    "hardlink-to-later": [h("b", "a"), f("a")],
    "hardlink-to-nothing": [h("b", "nothing")],
    "hardlink-to-a-directory": [d("a"), h("b", "a")],
    "hardlink-to-itself": [f("a", "x" * 600), h("a", "a")],
    "hardlink-over-a-file": [f("a", "1"), f("b", "2" * 600), h("b", "a")],
    "hardlink-over-a-directory": [f("a", "1"), d("b"), f("b/c", "2"), h("b", "a")],
    "hardlink-replaced": [f("a", "1" * 600), h("b", "a"), f("b", "2")],
    "hardlink-target-replaced": [f("a", noise(150_000)), h("b", "a"), f("a", "2")],
    "hardlink-target-replaced-alike": [f("a", "1" * 600), h("b", "a"), f("a", "1" * 600)],
    "hardlink-target-now-longer": [f("a", noise(150_000)), h("b", "a"), f("a", noise(160_000))],
    "hardlink-target-now-ends-otherwise": [f("a", noise(150_000)), h("b", "a"), f("a", noise(150_000)[:-1] + b"!")],
    "hardlink-target-whiteout": [f("a", noise(600)), h("b", "a"), f(".wh.a", "")],
    "hardlink-target-now-a-directory": [f("a", "1" * 600), h("b", "a"), d("a"), f("a/c", "2")],
    "hardlink-all-replaced": [f("a", "1" * 600), h("b", "a"), f("a", "2"), f("b", "3")],
    "devices": [Entry("null", CHARACTER, device=(1, 3)), Entry("loop", BLOCK, device=(7, 0)),
        Entry("a/whiteout", CHARACTER, device=(0, 0)), f("b")],
    "fifos": [Entry("p", FIFO, mode=0o622), Entry("a/q", FIFO)],
    "modes": [f(f"m{mode:o}", mode=mode) for mode in (0, 0o111, 0o4755, 0o2755, 0o7777)] + [d("t", 0o1777), d("n", 0)],
    "ids": [f(f"i{number}", uid=number, gid=number + 1)
        for number in (0, 1000, 65_534, 65_535, 2_097_150, 2_097_151, 2**31 - 1, 2**31)],
    "times": [f(f"t{time}", mtime=time) for time in (0, 1, 2**31 - 1, 2**31, 2**32 - 1)],
    "times-outside": [f("old", mtime=-1), d("older", mtime=-10**10), f("new", mtime=2**32), f("newer", mtime=2**34)],
    "times-with-nanoseconds": [f("a", nanoseconds=1), d("b", nanoseconds=999_999_999), f("c", nanoseconds=500_000_000)],
    "xattrs": [f("a", xattrs={"user.a": b"1", "user.b": "\u00e4".encode()}), f("b", xattrs={"user.a": b"1"}),
        d("d", xattrs={"user.d": b"v" * 3000}), f("e", xattrs={"user.empty": b""})],
    "xattrs-not-kept": [f("a", xattrs={"security.capability": b"\x01\0\0\x02\0\x04\0\0", "user.overlay.opaque": b"y"}),
        f("b", xattrs={"security.selinux": b"x:y:z", "trusted.t": b"1"}), s("s", "a", xattrs={"user.of.a.link": b"1"})],
    "root-s-own": [d("./", 0o711, uid=3, mtime=9), f("a"), d("/", 0o700, mtime=10)],
}


ONE_HEADER = header(b"f", FILE, 1, mode=0o644, mtime=T)
ONE_FILE = ONE_HEADER + padded(b"x")
TWO = w.docker([f("a", noise(3_000)), d("b"), f("b/c", noise(700))])


def pax(records, kind="x"):
    data = records if isinstance(records, bytes) else w.pax_records(records)
    return header(b"pax", kind, len(data)) + padded(data)


def changed(at, data, block=ONE_HEADER):
    return w.signed(block[:at] + data + block[at + len(data):])


def sparse_block(pieces, size, more=b"\0"):
    """Old GNU's: four pieces, whether more follow, the size of the file."""
    stored = sum(length for _, length in pieces)
    places = b"".join(w.octal(number, 12) for piece in pieces for number in piece).ljust(96, b"\0")
    block = header(b"holes", "S", stored, mode=0o644, magic=w.GNU_MAGIC)
    return changed(386, places + more + w.octal(size, 12), block) + padded(b"d" * stored)


# Streams as no writer above makes them. Where no end is given, they have none.
STREAMS = {
    "end/none": TWO[:-1024],
    "end/one-block": TWO[:-512],
    "end/one-block-and-some-bytes": TWO[:-200],
    "end/three-blocks": TWO + bytes(512),
    "end/some-bytes-more": TWO + bytes(100),
    "end/records-of-10-KiB": padded(TWO, 10_240),
    "end/a-MiB-of-zeros": TWO + bytes(1 << 20),
    "end/text-behind": TWO + b"signed by nobody\n",
    "end/noise-behind": TWO + noise(3_333),
    "end/another-archive-behind": TWO + w.jib([f("other")]),
    "end/behind-one-block": TWO[:-512] + ONE_FILE,
    "end/in-a-header": TWO[:-1024] + ONE_HEADER[:300],
    "end/in-a-file": TWO[:1500],
    "end/in-padding": ONE_FILE[:-10],
    "end/of-umoci-insert": ONE_FILE + ONE_HEADER + b"x",  # it does not close its archives
    "end/of-no-entry": END,
    "end/nothing-at-all": b"",
    "end/behind-an-extended-header": pax({"path": "x"}) + END,
    "global/comment": pax({"comment": "0123456789abcdef" * 3}, "g") + ONE_FILE,
    "global/owner-and-time": pax({"uid": "7", "gid": "8", "mtime": "9.5"}, "g") + ONE_FILE + pax({"uid": "6"})
        + ONE_FILE,
    "global/taken-back": pax({"uid": "7"}, "g") + ONE_FILE + pax({"uid": ""}, "g") + changed(0, b"g") + padded(b"y"),
    "global/last": ONE_FILE + pax({"comment": "c"}, "g"),
    "global/path": pax({"path": "p"}, "g") + ONE_FILE,
    "global/attribute": pax({"SCHILY.xattr.user.a": "1"}, "g") + ONE_FILE,
    "pax/twice": pax({"path": "p"}) + pax({"mtime": "5"}) + ONE_FILE,
    "pax/key-twice": pax(w.pax_record(b"path", b"p") + w.pax_record(b"path", b"q")) + ONE_FILE,
    "pax/nothing-in-it": pax(b"") + ONE_FILE,
    "pax/empty-values": pax({"path": "", "uid": "", "mtime": ""}) + ONE_FILE,
    "pax/size": pax({"size": "1"}) + ONE_FILE,
    "pax/size-alone": pax({"size": "1"}) + changed(124, w.octal(0, 12)) + padded(b"x"),
    "pax/another-size": pax({"size": "1"}) + changed(124, w.octal(2, 12)) + padded(b"xy"),
    "pax/before-gnu-name": pax({"path": "p"}) + w.gnu_long("L", b"l") + ONE_FILE,
    "pax/behind-gnu-name": w.gnu_long("L", b"l") + pax({"path": "p"}) + ONE_FILE,
    "pax/slash-behind-a-path": pax({"path": "p/"}) + changed(124, w.octal(0, 12)),
    "pax/negative-ids": pax({"uid": "-2", "gid": "-1"}) + ONE_FILE,
    "pax/fractions": pax({"mtime": "1.000000000000001"}) + ONE_FILE + pax({"mtime": "-0.5"}) + ONE_FILE,
    "pax/charset": pax({"hdrcharset": "BINARY", "path": b"\xff\xfe"}) + ONE_FILE,
    "pax/of-others": pax({"LIBARCHIVE.creationtime": "1.5", "LIBARCHIVE.xattr.user.b": "YQ==", "ctime": "1",
        "RHT.security.selinux": "s", "SCHILY.dev": "5", "SCHILY.acl.access": "user::rwx", "MSWINDOWS.fileattr": "x",
        "VENDOR.\u00e4": "b"}) + ONE_FILE,
    "pax/bytes-in-attributes": pax({"SCHILY.xattr.user.a": b"\0=\n\xff", "SCHILY.xattr.user.": b"1"}) + ONE_FILE,
    "pax/attribute-of-64-KiB": pax({"SCHILY.xattr.user.a": b"v" * 65_536}) + ONE_FILE,
    "pax/attribute-too-large": pax({"SCHILY.xattr.user.a": b"v" * 65_537}) + ONE_FILE,
    "pax/malformed": pax(b"9 path=p") + ONE_FILE,
    "pax/bytes-in-its-padding": pax({"path": "p"})[:-5] + b"bytes" + ONE_FILE,
    "gnu/names-twice": w.gnu_long("L", b"1") + w.gnu_long("L", b"2") + ONE_FILE,
    "gnu/name-without-a-NUL": header(b"././@LongLink", "L", 3, magic=w.GNU_MAGIC) + padded(b"abc") + ONE_FILE,
    "gnu/name-with-many-NULs": header(b"././@LongLink", "L", 600) + padded(b"abc".ljust(600, b"\0")) + ONE_FILE,
    "gnu/times-in-the-prefix": changed(345, b"%011o\0%011o\0" % (T, T), header(b"f", FILE, magic=w.GNU_MAGIC)),
    "gnu/holes": sparse_block([(512, 512), (2_048, 100)], 5_000),
    "gnu/holes-alone": sparse_block([(70_000, 0)], 70_000),
    "gnu/holes-first-and-last": sparse_block([(1 << 20, 1)], 1 << 21),
    "gnu/holes-none": sparse_block([(0, 700)], 700),
    "gnu/holes-twice": sparse_block([(512, 512)], 5_000) + sparse_block([(0, 512)], 4_000),
    "gnu/holes-out-of-order": sparse_block([(2_048, 512), (0, 512)], 5_000),
    "pax/holes": pax({"GNU.sparse.map": "0,1,200000,0", "GNU.sparse.size": "200000"}) + ONE_FILE,
    "pax/holes-1.0": pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "real",
        "GNU.sparse.realsize": "300000"}) + changed(124, w.octal(513, 12)) + padded(b"1\n150000\n1\n") + padded(b"x"),
    "header/type-of-v7": changed(156, b"\0") + padded(b"x"),
    "header/contiguous": changed(156, b"7") + padded(b"x"),
    "header/no-magic": changed(257, bytes(8)) + padded(b"x"),
    "header/of-star": changed(345, b"pre".ljust(131, b"\0") + b"%011o %011o " % (T, T) + bytes(8) + b"tar\0")
        + padded(b"x"),
    "header/bytes-behind-the-name": changed(0, b"f\0and more\0") + padded(b"x"),
    "header/bytes-at-its-end": changed(500, b"twelve bytes") + padded(b"x"),
    "header/blanks-before-numbers": changed(100, b"   644 \0") + padded(b"x"),
    "header/numbers-that-are-empty": changed(100, bytes(24)) + padded(b"x"),
    "header/size-in-binary": changed(124, b"\x80" + bytes(10) + b"\x01") + padded(b"x"),
    "header/size-that-is-negative": changed(124, b"\xff" * 12) + padded(b"x"),
    "header/checksum-with-blanks": ONE_HEADER[:148] + ONE_HEADER[148:156].replace(b"0", b" ", 1) + ONE_HEADER[156:]
        + padded(b"x"),
    "header/checksum-that-is-wrong": ONE_HEADER[:148] + b"000000\0 " + ONE_HEADER[156:] + padded(b"x"),
    "header/bytes-in-padding": ONE_HEADER + b"x" + noise(511),
    "header/owners-by-name": header(b"f", FILE, owner=(b"u" * 32, b"g" * 32)) + ONE_FILE,
    "header/a-directory-with-a-size": changed(124, w.octal(4096, 12), header(b"d/", DIRECTORY)) + ONE_FILE,
    "header/a-link-with-a-size": ONE_FILE + changed(124, w.octal(1, 12), header(b"h", HARDLINK, link=b"f")) + ONE_FILE,
    "header/a-device-with-a-size": changed(124, w.octal(5, 12), header(b"n", CHARACTER, device=(1, 3))) + ONE_FILE,
    "header/two-roots": header(b".", DIRECTORY, mode=0o755) + header(b"/", DIRECTORY, mode=0o700) + ONE_FILE,
    "header/no-name": header(b"", FILE),
    "header/a-file-over-the-root": header(b".", FILE),
    "header/below-a-whiteout": header(b".wh.a/b", FILE),
    "header/no-archive": b"#!/bin/sh\n" + noise(600),
    **{f"type/{kind}": header(b"x", kind) + ONE_FILE for kind in "8AXVMNDIZ"},
}


# How streams are packed

def member(data, level=6, flags=b"\0", more=b""):
    """One member of gzip, with the fields that `flags` say."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -15)
    return b"\x1f\x8b\x08" + flags + bytes(4) + b"\x00\xff" + more + packer.compress(data) + packer.flush() + \
        struct.pack("<II", zlib.crc32(data), len(data))


def pieces_of(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


def flushed(data, how):
    """As pigz and Go's writers do: the stream is flushed between pieces, with empty blocks in it."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return b"".join(packer.compress(piece) + packer.flush(how) for piece in pieces_of(data, 700)) + packer.flush()


def zstd(data, *options):
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, stdout=subprocess.PIPE, check=True).stdout


def skippable(data):
    return struct.pack("<II", 0x184D2A50, len(data)) + data


def estargz(data):
    """A member for each header and its bytes, and behind them an empty one with the place of the table."""
    footer = b"SG" + struct.pack("<H", 22) + b"%016xSTARGZ" % len(data)
    return b"".join(member(piece, 9) for piece in pieces_of(data, 512)) + \
        member(b"", 0, b"\x04", struct.pack("<H", len(footer)) + footer)


PACKINGS = {
    **{f"gzip-{level}": lambda data, level=level: member(data, level) for level in (0, 1, 9)},
    "gzip-named": lambda data: member(data, flags=b"\x18", more=b"layer.tar\0a comment\0"),
    "gzip-with-a-sum-of-its-header": lambda data: member(data, flags=b"\x02", more=struct.pack("<H",
        zlib.crc32(b"\x1f\x8b\x08\x02" + bytes(4) + b"\x00\xff") & 0xFFFF)),
    "gzip-in-two": lambda data: member(data[:777]) + member(data[777:]),
    "gzip-of-apk": lambda data: member(data[:512]) + member(data[512:2048]) + member(data[2048:]),
    "gzip-in-pieces-of-100": lambda data: b"".join(member(piece) for piece in pieces_of(data, 100)),
    "gzip-empty-members": lambda data: member(b"") + member(data) + member(b"") * 3,
    "gzip-flushed": lambda data: flushed(data, zlib.Z_SYNC_FLUSH),
    "gzip-flushed-in-full": lambda data: flushed(data, zlib.Z_FULL_FLUSH),
    "gzip-of-python": lambda data: gzip.compress(data, mtime=0),
    "gzip-with-zeros-behind": lambda data: member(data) + bytes(700),
    "gzip-with-bytes-behind": lambda data: member(data) + b"bytes",
    "gzip-cut-off": lambda data: member(data)[:-9],
    "gzip-with-another-sum": lambda data: member(data)[:-8] + bytes(8),
    "estargz": estargz,
    **{f"zstd{option}": lambda data, option=option: zstd(data, option)
        for option in ("-1", "-19", "--long=27", "--no-check", "--rsyncable", "-T2")},
    "zstd-in-two": lambda data: zstd(data[:777]) + zstd(data[777:]),
    "zstd-chunked": lambda data: b"".join(zstd(piece) for piece in pieces_of(data, 1500)) + skippable(b"manifest") +
        skippable(bytes(64)),
    "zstd-behind-skippable": lambda data: skippable(b"x" * 20) + zstd(data),
    "zstd-empty-frames": lambda data: zstd(b"") + zstd(data) + zstd(b""),
    "zstd-cut-off": lambda data: zstd(data)[:-3],
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


class Folder:
    """Where the layers go."""

    def __init__(self, path):
        self.path, self.seen, self.lines = Path(path), set(), []

    def add(self, name, blob, tar):
        if blob in self.seen:
            return
        self.seen.add(blob)
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_bytes(blob)
        self.lines.append(f"{hashlib.sha256(tar).hexdigest()} {name}\n")

    def finish(self):
        (self.path / "diff-ids").write_text("".join(self.lines))


def add_made(out):
    for writer, write in w.WRITERS.items():
        for tree, entries in TREES.items():
            tar = write(entries)
            out.add(f"{writer}/{tree}", tar, tar)
    for name, stream in STREAMS.items():
        out.add(name, stream, stream)
    for name, pack in PACKINGS.items():
        out.add(f"packed/{name}", pack(TWO), TWO)


def add_of_programs(out):
    with tempfile.TemporaryDirectory() as work:
        w.make_folder(f"{work}/tree")
        for name, options in w.GNU_TAR.items():
            tar = w.gnu_tar(f"{work}/tree", *options)
            out.add(f"gnu-tar/{name}", tar, tar)


def add_cases(out):
    for name, (layers, _) in CASES.items():
        # Of an image of many layers the first few are as good as all.
        for number, layer in enumerate(layers[:4], 1):
            tar = b"".join(layer) + END
            out.add(f"cases/{name}-{number}", tar, tar)


def main():
    out = Folder(sys.argv[1])
    add_made(out)
    add_of_programs(out)
    add_cases(out)
    out.finish()


if __name__ == "__main__":
    main()
