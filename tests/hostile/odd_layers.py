"""A table of images with odd layers, for the comparison with other unpackers.

Deterministic: no clock, no random number.

CASES maps a name to (layers, exceptions). A layer is a list of tar pieces as bytes. Everything lies below t/, where no
container has mounts of its own. An exception says where Berth differs from umoci on purpose:
{path or "*": (fields or "absent" or "extra", reason)}; for "refused" Berth must refuse the image.
"""

import os
import subprocess
import tarfile
import tempfile

T = 1_600_000_000
PAX, GNU, USTAR = tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT
END = bytes(1024)


def entry(name, kind=tarfile.REGTYPE, content=b"", form=GNU, **fields):
    """One entry; names and targets may hold any byte (as surrogates)."""
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = {tarfile.DIRTYPE: 0o755, tarfile.SYMTYPE: 0o777}.get(kind, 0o644)
    info.mtime = T
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info.tobuf(form, "utf-8", "surrogateescape") + content + bytes(-len(content) % 512)


def d(name, mode=0o755, **fields):
    return entry(name, tarfile.DIRTYPE, mode=mode, **fields)


def f(name, content="content", **fields):
    return entry(name, content=content.encode() if isinstance(content, str) else content, **fields)


def s(name, target, **fields):
    return entry(name, tarfile.SYMTYPE, linkname=target, **fields)


def h(name, target, **fields):
    return entry(name, tarfile.LNKTYPE, linkname=target, **fields)


def p(name, **fields):
    return entry(name, tarfile.FIFOTYPE, **fields)


def wh(name):
    folder, _, base = name.rpartition("/")
    return f(f"{folder}/.wh.{base}", "")


def opaque(folder):
    return f(f"{folder}/.wh..wh..opq", "")


def x(name, records, **fields):
    return f(name, form=PAX, pax_headers={f"SCHILY.xattr.{key}": value for key, value in records.items()}, **fields)


def by_gnu_tar(*options):
    """Entries that GNU tar makes of a file with holes and of names that need extensions."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/t")
        os.chmod(f"{folder}/t", 0o755)
        for name, pieces, size in (("t/holes", range(0, 1 << 20, 1 << 16), (1 << 20) + 777),
                ("t/hole-first", [1 << 20], (1 << 20) + 5), ("t/hole-only", [], 1 << 20),
                ("t/hole-last", [0], 1 << 20)):
            with open(f"{folder}/{name}", "wb") as out:
                for at in pieces:
                    out.seek(at)
                    out.write(f"data at {at}".encode()[:5])
                out.truncate(size)
            os.chmod(f"{folder}/{name}", 0o640)
        command = ["tar", "-C", folder, "-c", "-S", "-b1", "--sort=name", f"--mtime=@{T}", "--owner=7", "--group=8",
            "--numeric-owner", *options, "t"]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.removesuffix(END)


def v7(name, content=b""):
    """A header as before POSIX: no magic, no type."""
    header = bytearray(f(name, content)[:512])
    header[257:512] = bytes(255)
    header[156] = 0
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + content + bytes(-len(content) % 512)


def with_type(piece, kind):
    header = bytearray(piece[:512])
    header[156] = ord(kind)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + piece[512:]


def noise(size):
    out, state = bytearray(), 12345
    while len(out) < size:
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        out += state.to_bytes(4, "little")
    return bytes(out[:size])


def files(*names):
    return [d("t")] + [f(f"t/{name}", f"content of {name}") for name in names]


BASE = [d("t"), d("t/d", 0o750), f("t/d/a", "lower a"), f("t/d/b", "lower b", mode=0o600), d("t/d/sub", 0o711),
    f("t/d/sub/c", "lower c"), s("t/link", "d/a"), f("t/file", "lower file")]
DEEP = "t" + "/d" * 120
LONG = "n" * 100 + "/" + "m" * 200 + "/" + "o" * 255
UTF8 = ["t/\u00e4\u00f6\u00fc", "t/a\u0308o\u0308", "t/\u65e5\u672c", "t/\U0001f40b"]
ODD_NAMES = ["t/ blank", "t/line\nend", "t/back\\slash", "t/'quote\"", "t/-dash", "t/*", "t/\x01\x7f", "t/\udcff\udcfe",
    "t/\udcc3(", "t/...", "t/..x", "t/.w", "t/.whx"]

SEEN_LATER = "a parent without an entry has the time of unpacking there and 0 here"
TOUCHED = "umoci changes the directory's time by what it makes or removes in it, and does not put it back"
PARENTS = "a name makes its parents, also that of a whiteout (as with containerd)"
NOWHERE = "a parent that is a symlink to nothing becomes a directory; umoci makes its target"
EMPTY = "umoci's tar reader takes an empty value for none; GNU tar and Berth keep it"
NO_DEVICES = "device nodes are skipped and counted: nobody could open them"
LIMITS = "squashfs has 32 bits for a time: what lies outside is clamped"
REAL_TARGET = ("a layer means the same whatever is below it: "
    "a parent that is a symlink of a lower layer becomes a directory")

BY_TAR = {"by tar": ("", "umoci 0.4 reads no such entries")}

CASES = {
    "plain": ([[*BASE]], {}),
    "whiteout-file": ([BASE, [d("t"), d("t/d"), wh("t/d/a"), wh("t/file")]], {}),
    "whiteout-directory": ([BASE, [wh("t/d")]], {}),
    "whiteout-symlink": ([BASE, [wh("t/link")]], {}),
    "whiteout-nothing": ([BASE, [wh("t/none"), wh("t/d/none")]], {}),
    "whiteout-below-nothing": ([BASE, [wh("t/new/none")]], {"t/new": ("extra", PARENTS)}),
    "whiteout-and-again": ([BASE, [wh("t/file"), f("t/file", "upper"), f("t/link", "upper"), wh("t/link")]], {}),
    "whiteout-directory-and-again": ([BASE, [wh("t/d"), d("t/d", 0o700), f("t/d/new", "upper")]], {}),
    "whiteout-directory-now-file": ([BASE, [wh("t/d"), f("t/d", "a file now")]], {}),
    "whiteout-two-layers-down": ([BASE, [f("t/other", "x")], [wh("t/file")], [f("t/file", "back")]], {}),
    "whiteout-of-a-whiteout": ([BASE, [wh("t/file")], [wh("t/file")], [f("t/more")]], {}),
    "opaque-first": ([BASE, [d("t/d", 0o755), opaque("t/d"), f("t/d/new", "upper")]], {}),
    "opaque-last": ([BASE, [d("t/d"), f("t/d/new", "upper"), d("t/d/sub"), f("t/d/sub/new", "x"), opaque("t/d")]],
        {"t/d/sub": ("mtime", TOUCHED)}),
    "opaque-middle": ([BASE, [d("t/d"), f("t/d/a", "upper a"), opaque("t/d"), f("t/d/z", "upper z")]], {}),
    "opaque-twice": ([BASE, [d("t/d"), opaque("t/d"), f("t/d/one")], [d("t/d"), opaque("t/d"), f("t/d/two")]], {}),
    "opaque-new-directory": ([BASE, [d("t/fresh"), opaque("t/fresh"), f("t/fresh/a")]], {}),
    "opaque-over-file": ([BASE, [d("t/file"), opaque("t/file"), f("t/file/a")]], {}),
    "opaque-nested": ([BASE, [d("t"), opaque("t"), d("t/d"), f("t/d/only", "x")], [d("t/d"), f("t/d/more", "y")]], {}),
    "opaque-root": ([BASE, [f(".wh..wh..opq", ""), d("t"), f("t/new")]], {}),
    "whiteout-and-implied": ([BASE, [wh("t/d"), f("t/d/new", "x")]],
        {"t": ("mtime", TOUCHED), "t/d": ("mtime", SEEN_LATER)}),
    "whiteout-below-file": ([BASE, [wh("t/file/x")]], {"t/file": ("type,mode,mtime,size,content", PARENTS)}),
    "whiteout-in-removed": ([BASE, [wh("t/d")], [wh("t/d/a"), f("t/x")]], {"t/d": ("extra", PARENTS)}),
    "implied-over-file": ([BASE, [f("t/file/x", "below what was a file")]],
        {"only here": ("", "row 9: a parent that is no directory becomes one")}),
    "implied-over-symlink-to-nothing": ([[d("t"), s("t/s", "nowhere"), f("t/s/x", "x")]], {"*": ("tree", NOWHERE)}),
    "symlink-loop": ([[d("t"), s("t/a", "b"), s("t/b", "a"), f("t/c")]], {}),
    "hardlink-over-directory": ([BASE, [f("t/a", "x"), h("t/d", "t/a")]], {}),
    "hardlink-then-directory": ([[d("t"), f("t/a", "x"), h("t/b", "t/a")], [d("t/a"), f("t/a/below")]], {}),
    "hardlink-with-whiteout-of-it": ([BASE, [f("t/file", "new"), h("t/again", "t/file"), wh("t/file")]], {}),
    "aufs-bookkeeping": ([BASE, [f("t/.wh..wh.plnk", ""), f("t/.wh..wh.aufs", ""), f("t/x")]], {}),
    "hardlinks": ([[d("t"), f("t/a", "one inode"), h("t/b", "t/a"), h("t/c", "t/b"), h("t/d", "./t/a"),
        h("t/e", "/t/c")]], {}),
    "hardlink-to-symlink": ([[d("t"), f("t/a"), s("t/s", "a"), h("t/hs", "t/s")]], {}),
    "hardlink-target-whiteout": ([[d("t"), f("t/a", "one inode"), h("t/b", "t/a")], [wh("t/a")]], {}),
    "hardlink-target-replaced": ([[d("t"), f("t/a", "one inode"), h("t/b", "t/a"), f("t/a", "another")],
        [f("t/c")]], {}),
    "hardlink-over-file": ([[d("t"), f("t/a", "kept"), f("t/b", "gone"), h("t/b", "t/a")]], {}),
    "hardlinks-per-layer": ([[d("t"), f("t/a", "low"), h("t/b", "t/a")], [f("t/b", "high"), h("t/c", "t/b")]], {}),
    "hardlink-to-fifo": ([[d("t"), p("t/p"), h("t/q", "t/p")]], {}),
    "hardlink-to-lower-layer": ([BASE, [h("t/again", "t/file")]],
        {"refused": ("missing in the layer", "row 5: a layer stands for itself, its links too")}),
    "type-file-to-directory": ([BASE, [d("t/file", 0o700), f("t/file/x")]], {}),
    "type-directory-to-file": ([BASE, [f("t/d", "file now")]], {}),
    "type-directory-to-symlink": ([BASE, [s("t/d", "file")]], {}),
    "type-symlink-to-directory": ([BASE, [d("t/link"), f("t/link/x")]], {}),
    "type-symlink-to-file": ([BASE, [f("t/link", "file now")]], {}),
    "type-file-to-fifo-and-back": ([BASE, [p("t/file")], [f("t/file", "again")]], {}),
    "type-changes-in-one-layer": ([[d("t"), f("t/a"), d("t/a"), f("t/a/b"), s("t/c", "a"), f("t/c", "file"), d("t/e"),
        f("t/e/gone"), s("t/e", "a"), p("t/g"), f("t/g", "x")]], {}),
    "implied-directories": ([[d("t"), f("t/x/y/z", "deep")]],
        {"t": ("mtime", TOUCHED), "t/x": ("mtime", SEEN_LATER), "t/x/y": ("mtime", SEEN_LATER)}),
    "implied-over-directory": ([BASE, [f("t/d/sub/new", "x")], [d("t/d", 0o705, uid=3)], [f("t/d/more", "y")]], {}),
    "directory-attributes": ([BASE, [d("t/d", 0o1777, uid=5, gid=6, mtime=T + 9)], [f("t/unrelated")]], {}),
    "directory-twice": ([[d("t"), d("t/d", 0o700), f("t/d/a"), d("t/d", 0o755, mtime=T + 5)]], {}),
    "root-attributes": ([[d("./", 0o711), d("t"), f("t/a")], [d("./", 0o755), f("t/b")]], {}),
    "deep": ([[d("/".join(DEEP.split("/")[:n])) for n in range(1, 122)] + [f(DEEP + "/bottom", "x")]], {}),
    "long-names-pax": ([[d("t"), f("t/" + LONG, "long", form=PAX), s("t/l", "q" * 4000, form=PAX),
        f("t/" + "z" * 255, form=PAX)]],
        {"t": ("mtime", TOUCHED), "t/" + "n" * 100: ("mtime", SEEN_LATER),
            "t/" + LONG.rpartition("/")[0]: ("mtime", SEEN_LATER)}),
    "long-names-gnu": ([[d("t"), f("t/" + LONG, "long"), s("t/l", "q" * 4000), f("t/" + "z" * 255),
        h("t/h", "t/" + LONG)]],
        {"t": ("mtime", TOUCHED), "t/" + "n" * 100: ("mtime", SEEN_LATER),
            "t/" + LONG.rpartition("/")[0]: ("mtime", SEEN_LATER)}),
    "long-names-ustar": ([[d("t"), d("t/" + "p" * 90), f("t/" + "p" * 90 + "/" + "f" * 99, form=USTAR)]], {}),
    "sparse-gnu": ([[by_gnu_tar("--format=gnu")]], BY_TAR),
    "sparse-0.0": ([[by_gnu_tar("--format=pax", "--sparse-version=0.0")]], BY_TAR),
    "sparse-0.1": ([[by_gnu_tar("--format=pax", "--sparse-version=0.1")]], BY_TAR),
    "sparse-1.0": ([[by_gnu_tar("--format=pax", "--sparse-version=1.0")]], BY_TAR),
    "xattrs": ([[d("t"), x("t/a", {"user.one": "1", "user.two": "zwei \u00e4", "user.empty": ""}),
        x("t/b", {"user.one": "1"})], [x("t/b", {"user.other": "v" * 3000})]], {"t/a": ("xattrs", EMPTY)}),
    "xattrs-dropped": ([[d("t"), x("t/a", {"user.kept": "1", "user.overlay.opaque": "y"})]],
        {"t/a": ("xattrs", "row 20: what overlayfs would obey is dropped")}),
    "ids": ([[d("t"), f("t/a", uid=65535, gid=65536), f("t/b", uid=2097152, gid=2097151),
        f("t/c", uid=2**31, gid=2**32 - 2, form=PAX), f("t/e", uid=2**31, gid=2**31 - 1)]], {}),
    "times": ([[d("t"), f("t/0", mtime=0), f("t/1", mtime=1), f("t/2", mtime=2**31 - 1), f("t/3", mtime=2**31),
        f("t/4", mtime=2**32 - 1), f("t/5", mtime=1.75, form=PAX)]], {}),
    "times-outside": ([[d("t"), f("t/negative", mtime=-5), f("t/huge", mtime=2**33), f("t/pax", mtime=-1.5, form=PAX)]],
        {"t/negative": ("mtime", LIMITS), "t/huge": ("mtime", LIMITS), "t/pax": ("mtime", LIMITS)}),
    "duplicates": ([[d("t"), f("t/a", "first"), f("t/a", "second"), f("t/./a", "third"), s("t/s", "x"), s("t/s", "y"),
        f("t/b", "1"), h("t/b2", "t/b"), f("t/b", "2")]], {}),
    "spellings": ([[d("./t/"), f("./t/a"), f("/t/b"), f("t//c"), f("t/./d"), f("t/x/../e"), d("t/x//"),
        h("t/ha", "./t//a"), f("//t/g")]], {}),
    "no-entries": ([files("a"), [], files("b"), []], {}),
    "modes": ([[d("t"), f("t/0", mode=0), f("t/7777", mode=0o7777), f("t/suid", mode=0o4755), f("t/sgid", mode=0o2755),
        d("t/sticky", 0o1777), d("t/none", 0), f("t/none/x"), f("t/w", mode=0o222)]], {}),
    "fifos": ([[d("t"), p("t/p", mode=0o622), p("t/q")], [wh("t/q")]], {}),
    "devices": ([[d("t"), entry("t/c", tarfile.CHRTYPE, devmajor=1, devminor=3),
        entry("t/b", tarfile.BLKTYPE, devmajor=7, devminor=0), f("t/a")]],
        {"t/c": ("absent", NO_DEVICES), "t/b": ("absent", NO_DEVICES)}),
    "hardlink-to-device": ([[d("t"), entry("t/c", tarfile.CHRTYPE, devmajor=1, devminor=3), h("t/d", "t/c"),
        h("t/e", "t/d"), f("t/a")]],
        {"t/c": ("absent", NO_DEVICES), "t/d": ("absent", NO_DEVICES), "t/e": ("absent", NO_DEVICES)}),
    "names-utf8": ([[d("t")] + [f(name, name, form=PAX) for name in UTF8]], {}),
    "names-odd": ([[d("t")] + [f(name, "x") for name in ODD_NAMES]], {}),
    "many-entries": ([[d("t"), d("t/many")] + [f(f"t/many/{n:05}", str(n)) for n in range(10_000)],
        [wh("t/many/05000"), f("t/many/10000", "one more")]], {}),
    "sizes": ([[d("t")] + [f(f"t/{size}", noise(size))
        for size in (0, 1, 511, 512, 513, 4096, 131071, 131072, 131073, 262144, 400_000)]], {}),
    "same-content": ([[d("t")] + [f(f"t/{n}", noise(200_000)) for n in range(3)] + [f("t/tail", "same tail")],
        [f("t/again", noise(200_000)), f("t/tail2", "same tail")]], {}),
    "many-layers": ([[d("t"), f("t/shared", "0")]]
        + [[f("t/shared", str(n)), f(f"t/own-{n}", str(n))] + ([wh(f"t/own-{n - 1}")] if n % 3 == 0 else [])
            for n in range(1, 120)], {}),
    "through-own-symlink": ([[d("t"), d("t/real"), s("t/s", "real"), f("t/s/x", "through"), d("t/abs"),
        s("t/a", "/t/abs"), f("t/a/y", "through")]], {}),
    "through-lower-symlink": ([[d("t"), d("t/real"), s("t/s", "real")], [f("t/s/x", "x")]],
        {"*": ("tree", REAL_TARGET)}),
    "v7": ([[d("t"), v7("t/old", b"x"), v7("t/dir/"), f("t/dir/a")]], {}),
    "contiguous": ([[d("t"), with_type(f("t/a", "x"), "7")]], BY_TAR),
    "pax-global": ([[entry("pax", tarfile.XGLTYPE, b"20 comment=anything\n"), d("t"), f("t/a")]], BY_TAR),
    "child-of-file": ([[d("t"), f("t/a"), f("t/a/b", "x")]],
        {"only here": ("", "row 9: a parent that is no directory becomes one")}),
}


def archive(layer):
    return b"".join(layer) + END
