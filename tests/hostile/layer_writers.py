"""Tar streams as the programs write them that make images: each writer turns a list of entries into bytes.

Python's tarfile, libarchive (which is bsdtar) and GNU tar are the real ones. The others are no packages of Debian: what
is characteristic of each is done here by hand.
"""

import contextlib
import ctypes
import hashlib
import os
import posixpath
import subprocess
import tarfile
from dataclasses import dataclass, field, replace
from pathlib import Path

T = 1_600_000_000
FILE, HARDLINK, SYMLINK, CHARACTER, BLOCK, DIRECTORY, FIFO = "0123456"
TYPE_BITS = {FILE: 0o100000, HARDLINK: 0o100000, SYMLINK: 0o120000, CHARACTER: 0o020000, BLOCK: 0o060000,
    DIRECTORY: 0o040000, FIFO: 0o010000}
POSIX_MAGIC, GNU_MAGIC = b"ustar\x0000", b"ustar  \0"
END = bytes(1024)


@dataclass(frozen=True)
class Entry:
    name: str  # any byte, as surrogates
    kind: str = FILE
    content: bytes = b""
    target: str = ""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = T
    nanoseconds: int = 0
    xattrs: dict = field(default_factory=dict)
    device: tuple = (0, 0)


def as_bytes(text):
    return text.encode("utf-8", "surrogateescape")


def padded(data, size=512):
    return data + bytes(-len(data) % size)


def octal(value, width):
    """Digits and a NUL; where they do not fit, GNU's binary form."""
    if 0 <= value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    return (b"\xff" if value < 0 else b"\x80") + value.to_bytes(width - 1, "big", signed=value < 0)


def octal_and_blank(value, width):
    """As Commons Compress for Java writes it: the digits end with a blank and, in short fields, a NUL."""
    end = b" \0" if width == 8 else b" "
    digits = width - len(end)
    return b"%0*o" % (digits, value) + end if 0 <= value < 8 ** digits else octal(value, width)


def signed(header):
    """The header with its checksum."""
    header = header[:148] + b" " * 8 + header[156:]
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def header(name, kind, size=0, link=b"", mode=0, uid=0, gid=0, mtime=0, magic=POSIX_MAGIC, owner=(b"", b""),
        device=None, prefix=b"", number=octal):
    fields = [name[:100].ljust(100, b"\0"), number(mode, 8), number(uid, 8), number(gid, 8), number(size, 12),
        number(mtime, 12), bytes(8), kind.encode(), link[:100].ljust(100, b"\0"), magic, owner[0].ljust(32, b"\0"),
        owner[1].ljust(32, b"\0")]
    fields += [number(part, 8) for part in device] if device else [bytes(16)]
    return signed(padded(b"".join(fields) + prefix.ljust(155, b"\0")))


def pax_record(key, value):
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length += 1
    return str(length).encode() + rest


def pax_records(records):
    return b"".join(pax_record(as_bytes(key), value if isinstance(value, bytes) else as_bytes(value))
        for key, value in records.items())


def body(entry):
    return padded(entry.content) if entry.kind == FILE else b""


def stored_size(entry):
    return len(entry.content) if entry.kind == FILE else 0


# Go's archive/tar, with which most builders write

def go_prefix(name):
    """A long name in two parts, as ustar has room for: None where that does not work."""
    at = name[:156 if len(name) > 156 else len(name) - name.endswith(b"/")].rfind(b"/")
    good = 0 < at <= 155 and 0 < len(name) - at - 1 <= 100 and name.isascii()
    return (name[:at], name[at + 1:]) if good else None


def go_ascii(text):
    return bytes(byte for byte in text if byte < 0x80)


def go_records(entry, name, link, with_times):
    """The PAX records that an entry needs, those of a Go that rounds times unless the format was asked for."""
    out = {}
    if (len(name) > 100 and not go_prefix(name)) or not name.isascii():
        out["path"] = name
    if len(link) > 100 or not link.isascii():
        out["linkpath"] = link
    out |= {key: str(value) for key, value in (("uid", entry.uid), ("gid", entry.gid)) if value >= 8 ** 7}
    if with_times and entry.nanoseconds:
        out["mtime"] = f"{entry.mtime}.{entry.nanoseconds:09}".rstrip("0")
    elif not 0 <= entry.mtime < 8 ** 11:
        out["mtime"] = str(entry.mtime)
    return out | {f"SCHILY.xattr.{key}": value for key, value in entry.xattrs.items()}


def go(entry, owner=("", ""), type_bits=False, with_times=False, more=None):
    """A PAX header, its records sorted, only where it is needed, named PaxHeaders.0 and without mode or time."""
    name, link = as_bytes(entry.name), as_bytes(entry.target)
    records = go_records(entry, name, link, with_times) | (more or {})
    out, split = b"", go_prefix(name) if len(name) > 100 and "path" not in records else None
    if records:
        folder, base = posixpath.split(entry.name)
        data = pax_records(dict(sorted(records.items())))
        out = header(go_ascii(as_bytes(posixpath.join(folder, "PaxHeaders.0", base))), "x", len(data),
            device=(0, 0)) + padded(data)
    fitting = {key: 0 if key in records else getattr(entry, key) for key in ("uid", "gid")}
    prefix, short = split or (b"", go_ascii(name))
    mode = entry.mode | (TYPE_BITS[entry.kind] if type_bits else 0)
    mtime = entry.mtime if 0 <= entry.mtime < 8 ** 11 else 0
    return out + header(short, entry.kind, stored_size(entry), go_ascii(link), mode, mtime=mtime, prefix=prefix,
        owner=tuple(map(str.encode, owner)), device=entry.device, **fitting) + body(entry)


def slashed(entry):
    """Directories end with a slash."""
    return replace(entry, name=entry.name.rstrip("/") + "/") if entry.kind == DIRECTORY else entry


def docker(entries):
    """No owners' names; modes with the bits of the kind; PAX only where it is needed; an end of two blocks."""
    return b"".join(go(slashed(entry), type_bits=True) for entry in entries) + END


def buildah(entries):
    """Owners' names, and times with their nanoseconds, so that every entry has a PAX header."""
    return b"".join(go(slashed(replace(entry, nanoseconds=123456789)), ("root", "root"), with_times=True)
        for entry in entries) + END


def parents_of(name):
    parts = [part for part in name.split("/")[:-1] if part]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def kaniko(entries):
    """The root as "/", all parents of each file again before it, hard links to absolute names, empty whiteouts."""
    out = go(Entry("/", DIRECTORY, mode=0o755))
    for entry in entries:
        if not entry.name.startswith("."):
            out += b"".join(go(Entry(parent + "/", DIRECTORY, mode=0o755)) for parent in parents_of(entry.name))
        if posixpath.basename(entry.name).startswith(".wh."):
            entry = Entry(entry.name.lstrip("/"), mode=0, mtime=0)
        elif entry.kind == HARDLINK:
            entry = replace(entry, target="/" + entry.target.lstrip("/"))
        out += go(slashed(entry))
    return out + END


def ko(entries):
    """Reproducible: absolute names, the epoch, root, mode 0555, and no directories but the first."""
    out = go(Entry("/ko-app", DIRECTORY, mode=0o555, mtime=0))
    for entry in entries:
        target = "/ko-app/" + entry.target.lstrip("/") if entry.kind == HARDLINK else entry.target
        if entry.kind != DIRECTORY:
            out += go(replace(entry, name="/ko-app/" + entry.name.lstrip("/"), target=target, mode=0o555, uid=0, gid=0,
                mtime=0))
    return out + END


def apko(entries):
    """What APK's packages have of each file: its SHA-1 in a PAX record, and root's name."""
    def checksum(entry):
        return {"APK-TOOLS.checksum.SHA1": hashlib.sha1(entry.content).hexdigest()}
    return b"".join(go(replace(entry, mtime=0), ("root", "root"), more=checksum(entry) if entry.kind == FILE else None)
        for entry in entries) + END


def nix2container(entries):
    """Below /nix/store, absolute, directories without a slash, time 1, nothing writable, owned by root by name."""
    store = "/nix/store/0c5b8qs2v8b6l8zkr3n5gv9kqkxfyrd1-app-1.0"
    out = b"".join(go(Entry(name, DIRECTORY, mode=0o755, mtime=1), ("root", "root"))
        for name in ("/nix", "/nix/store", store))
    for entry in entries:
        mode = 0o777 if entry.kind == SYMLINK else entry.mode & ~0o222
        target = f"{store}/{entry.target.lstrip('/')}" if entry.kind == HARDLINK else entry.target
        name = f"{store}/{entry.name.strip('/')}"
        out += go(replace(entry, name=name, target=target, mode=mode, uid=0, gid=0, mtime=1), ("root", "root"))
    return out + END


# Others by hand

def gnu_long(kind, text, **fields):
    return header(b"././@LongLink", kind, len(text) + 1, magic=GNU_MAGIC, **fields) + padded(text + b"\0")


def with_gnu_names(entry, long_fields, **fields):
    name, link = as_bytes(entry.name), as_bytes(entry.target)
    out = gnu_long("K", link, **long_fields) if len(link) > 100 else b""
    out += gnu_long("L", name, **long_fields) if len(name) > 100 else b""
    return out + header(name, entry.kind, stored_size(entry), link, entry.mode, entry.uid, entry.gid, entry.mtime,
        GNU_MAGIC, **fields) + body(entry)


def busybox(entries):
    """GNU's magic, no leading slash, long names in entries of mode 0, devices' numbers in devices alone."""
    return b"".join(with_gnu_names(replace(slashed(entry), name=slashed(entry).name.lstrip("/") or "./"), {},
        owner=(b"root", b"root"), device=entry.device if entry.kind in (CHARACTER, BLOCK) else None)
        for entry in entries) + END


def ostree(entries):
    """tar-rs, as ostree-ext uses it: long names of mode 0644, each file an object that its name is a hard link to."""
    out = b"".join(with_gnu_names(Entry(name, DIRECTORY, mode=0o755, mtime=0), {"mode": 0o644})
        for name in ("sysroot", "sysroot/ostree", "sysroot/ostree/repo", "sysroot/ostree/repo/objects"))
    for entry in entries:
        if entry.kind == FILE and entry.content:
            digest = hashlib.sha256(as_bytes(entry.name) + entry.content).hexdigest()
            made = f"sysroot/ostree/repo/objects/{digest[:2]}/{digest[2:]}.file"
            out += with_gnu_names(replace(entry, name=made, mtime=0), {"mode": 0o644})
            entry = replace(entry, kind=HARDLINK, target=made)
        out += with_gnu_names(replace(entry, mtime=0), {"mode": 0o644})
    return out + END


def jib(entries):
    """Commons Compress for Java: numbers that end with blanks, modes with the bits of the kind, records of 10 KiB."""
    out = b""
    for entry in map(slashed, entries):
        name, link = as_bytes(entry.name), as_bytes(entry.target)
        records = {"path": name} if len(name) > 100 or not name.isascii() else {}
        records |= {"linkpath": link} if len(link) > 100 or not link.isascii() else {}
        records |= {} if 0 <= entry.mtime < 8 ** 11 else {"mtime": str(entry.mtime)}
        if records:
            data = pax_records(records)
            out += header(b"./PaxHeaders.X/" + name[:85], "x", len(data), mode=0o100644, mtime=1, device=(0, 0),
                number=octal_and_blank) + padded(data)
        out += header(name, entry.kind, stored_size(entry), link, entry.mode | TYPE_BITS[entry.kind], entry.uid,
            entry.gid, 1 if "mtime" in records else entry.mtime, device=entry.device, number=octal_and_blank)
        out += body(entry)
    return padded(out + END, 10240)


# Python's tarfile

def by_tarfile(form, entries, **given):
    """Names that the format has no room for are left out, as GNU tar does. Records of 10 KiB."""
    out = b""
    for entry in entries:
        info = tarfile.TarInfo(entry.name)
        info.type, info.linkname, info.size = entry.kind.encode(), entry.target, stored_size(entry)
        info.mode, info.uid, info.gid = entry.mode, entry.uid, entry.gid
        info.mtime = entry.mtime + entry.nanoseconds / 1e9
        info.devmajor, info.devminor = entry.device
        info.pax_headers = {f"SCHILY.xattr.{key}": value.decode("utf-8", "surrogateescape")
            for key, value in entry.xattrs.items()}
        for key, value in given.items():
            setattr(info, key, value)
        try:
            out += info.tobuf(form, "utf-8", "surrogateescape") + body(entry)
        except ValueError:
            continue
    return padded(out + END, tarfile.RECORDSIZE)


def bazel(entries):
    """pkg_tar: GNU's format by tarfile, below "./", the year 2000, no owner, no entries for parents."""
    files = [replace(entry, name="./" + entry.name.lstrip("/")) for entry in entries if entry.kind != DIRECTORY]
    return by_tarfile(tarfile.GNU_FORMAT, files, uid=0, gid=0, uname="", gname="", mtime=946684800)


# libarchive

class Libarchive:
    def __init__(self):
        self.library = ctypes.CDLL("libarchive.so.13")
        for name in ("archive_write_new", "archive_entry_new"):
            getattr(self.library, name).restype = ctypes.c_void_p

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if name.startswith("archive_write") and result is not None and result < -20:
            raise ValueError(f"{name} failed: {result}")
        return result

    def write(self, form, entries):
        out, used = ctypes.create_string_buffer(16 << 20), ctypes.c_size_t()
        archive = ctypes.c_void_p(self.call("archive_write_new"))
        self.call("archive_write_set_format_by_name", archive, form.encode())
        self.call("archive_write_open_memory", archive, out, ctypes.c_size_t(len(out)), ctypes.byref(used))
        for entry in entries:
            self.write_entry(archive, entry)
        self.call("archive_write_close", archive)
        self.call("archive_write_free", archive)
        return out.raw[:used.value]

    def write_entry(self, archive, entry):
        made = ctypes.c_void_p(self.call("archive_entry_new"))
        name, target = as_bytes(entry.name), as_bytes(entry.target)
        self.call("archive_entry_set_pathname", made, name)
        self.call("archive_entry_set_filetype", made, TYPE_BITS[entry.kind])
        self.call("archive_entry_set_perm", made, entry.mode)
        for key, value in (("uid", entry.uid), ("gid", entry.gid), ("size", stored_size(entry))):
            self.call(f"archive_entry_set_{key}", made, ctypes.c_int64(value))
        self.call("archive_entry_set_mtime", made, ctypes.c_int64(entry.mtime), ctypes.c_long(entry.nanoseconds))
        if entry.kind in (HARDLINK, SYMLINK):
            self.call("archive_entry_set_" + ("hardlink" if entry.kind == HARDLINK else "symlink"), made, target)
        self.call("archive_entry_set_rdevmajor", made, ctypes.c_uint64(entry.device[0]))
        self.call("archive_entry_set_rdevminor", made, ctypes.c_uint64(entry.device[1]))
        for key, value in entry.xattrs.items():
            self.call("archive_entry_xattr_add_entry", made, key.encode(), value, ctypes.c_size_t(len(value)))
        try:
            self.call("archive_write_header", archive, made)
            if stored_size(entry):
                self.call("archive_write_data", archive, entry.content, ctypes.c_size_t(len(entry.content)))
        except ValueError:
            pass  # the format has no room for it; bsdtar leaves it out
        self.call("archive_entry_free", made)


libarchive = Libarchive()

WRITERS = {
    "docker": docker, "buildah": buildah, "kaniko": kaniko, "ko": ko, "apko": apko, "nix2container": nix2container,
    "busybox": busybox, "ostree": ostree, "jib": jib, "bazel": bazel,
    "tarfile-ustar": lambda entries: by_tarfile(tarfile.USTAR_FORMAT, entries, uname="u", gname="g"),
    "tarfile-gnu": lambda entries: by_tarfile(tarfile.GNU_FORMAT, entries),
    "tarfile-pax": lambda entries: by_tarfile(tarfile.PAX_FORMAT, entries),
    # rules_oci writes with bsdtar as well.
    "libarchive-pax": lambda entries: libarchive.write("pax", entries),
    "libarchive-paxr": lambda entries: libarchive.write("paxr", entries),
    "libarchive-gnu": lambda entries: libarchive.write("gnutar", entries),
    "libarchive-ustar": lambda entries: libarchive.write("ustar", entries),
    "libarchive-v7": lambda entries: libarchive.write("v7tar", entries),
}


# Programs that read a folder

def make_folder(folder):
    """Long names, links, holes, a FIFO, an old time, an odd mode, an attribute."""
    os.umask(0o022)
    deep = "p" * 90 + "/" + "q" * 90
    os.makedirs(f"{folder}/{deep}")
    os.makedirs(f"{folder}/etc")
    for name, content in (("etc/os-release", b"NAME=x\n"), ("empty", b""), ("block", b"b" * 512),
            ("blocks", bytes(range(256)) * 1024), (f"{deep}/{'r' * 200}", b"long"), ("caf\u00e9", b"utf-8"),
            ("su", b"#!"), ("zeros", bytes(200_000))):
        Path(folder, name).write_bytes(content)
    os.chmod(f"{folder}/su", 0o4755)
    with contextlib.suppress(OSError):  # a tmpfs has none before Linux 6.6
        os.setxattr(f"{folder}/etc/os-release", "user.a", b"value")
    for number, name in enumerate(("a-hard", "z-hard")):
        os.link(f"{folder}/etc/os-release", f"{folder}/{name}")
        os.symlink("t" * (99 + number), f"{folder}/{name}-link")
    os.symlink("t/" * 150, f"{folder}/long-link")
    os.mkfifo(f"{folder}/pipe")
    with open(f"{folder}/holes", "wb") as out:
        for at in range(0, 30 << 16, 1 << 16):
            out.seek(at)
            out.write(b"data")
        out.truncate((30 << 16) + 777)
    for path in [*Path(folder).rglob("*"), Path(folder)]:
        os.utime(path, (0, T), follow_symlinks=False)


def gnu_tar(folder, *options):
    return subprocess.run(["tar", "-C", folder, "-c", "--sort=name", "--owner=7", "--group=8", *options],
        stdout=subprocess.PIPE, check=True).stdout


PLAIN_PAX = ["--format=posix", "--pax-option=delete=atime,delete=ctime"]
GNU_TAR = {
    "v7": ["--format=v7", "etc", "empty", "su", "a-hard", "blocks"],
    "ustar": ["--format=ustar", "--exclude=long-link", "--exclude=rrr*", "."],
    "oldgnu": ["--format=oldgnu", "."],
    "gnu": ["--format=gnu", "."],
    "posix": [*PLAIN_PAX, "."],
    "posix-xattrs": [*PLAIN_PAX, "--xattrs", "."],
    "posix-global": ["--format=posix", "--pax-option=globexthdr.name=g,comment=made by hand,delete=atime,delete=ctime",
        "."],
    "posix-times": [*PLAIN_PAX, "--mtime=2020-02-02 02:02:02.123456789 UTC", "."],
    "sparse-oldgnu": ["--format=oldgnu", "-S", "."],
    "sparse-gnu": ["--format=gnu", "-S", "."],
    "sparse-0.0": [*PLAIN_PAX, "--sparse-version=0.0", "."],
    "sparse-0.1": [*PLAIN_PAX, "--sparse-version=0.1", "."],
    "sparse-1.0": [*PLAIN_PAX, "--sparse-version=1.0", "."],
    "sparse-raw": ["--format=gnu", "-S", "--hole-detection=raw", "-b1", "holes", "zeros"],
    "blocks-of-512": ["--format=gnu", "-b1", "."],
    "blocks-of-1-MiB": ["--format=gnu", "-b2048", "."],
    "absolute": ["--format=gnu", "-P", "--transform=s,^\\.,/opt,", "."],
    "renamed": ["--format=gnu", "--transform=s,^\\./,,", "."],
    "nix-docker-tools": ["--format=gnu", "--hard-dereference", "--mtime=@1", "--mode=u-w,go-w",
        "--transform=s,^\\.,./nix/store/x,", "."],
    "before-1970": [*PLAIN_PAX, "--mtime=@-1000", "."],
    "before-1970-gnu": ["--format=gnu", "--mtime=@-1000", "."],
    "large-ids": ["--format=gnu", "--owner=o:3000000", "--group=g:4000000", "."],
    "large-ids-posix": [*PLAIN_PAX, "--owner=o:3000000", "--group=g:4000000", "."],
    "a-name-twice": ["--format=gnu", "etc", "etc", "a-hard", "z-hard", "etc/os-release"],
    "labelled": ["--format=gnu", "-V", "label", "etc"],
    "incremental": ["--format=gnu", "-G", "etc"],
}
