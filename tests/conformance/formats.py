"""A reader of Berth's store, written from docs/formats.md alone: tree_of(store) gives what the image in it has."""

import hashlib
import stat
import struct
import subprocess
from pathlib import Path

WORD = (1 << 64) - 1
MULTIPLIER = 0x9E3779B97F4A7C15
SECTIONS = ["inodes", "entries", "names", "blocks", "sums", "fragments", "xattrs", "layers", "config", "hashes",
    "pages"]
NONE, GZIP, LZ4, ZSTD = 0, 1, 5, 6


class Damaged(Exception):
    pass


def need(holds, what):
    if not holds:
        raise Damaged(what)


def mix(state, word):
    state = (state ^ word) * MULTIPLIER & WORD
    return state ^ state >> 29


def hash_of(data):
    state = 0x6265727468 ^ len(data)
    for (word,) in struct.iter_unpack("<Q", data + bytes(-len(data) % 8)):
        state = mix(state, word)
    return state


def bulk_hash(data):
    lanes, whole = [1, 2, 3, 4], len(data) // 32 * 32
    for words in struct.iter_unpack("<4Q", data[:whole]):
        lanes = [mix(lane, word) for lane, word in zip(lanes, words)]
    return hash_of(struct.pack("<5Q", *lanes, hash_of(data[whole:])))


def unpacked(codec, size, limit, data):
    """A block as it is stored; bit 24 of `size` says that it is not packed."""
    if size & 1 << 24:
        return data
    need(codec == ZSTD, f"codec {codec}")
    out = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, check=True).stdout
    need(len(out) <= limit, "a block is too long")
    return out


class Layer:
    def __init__(self, path):
        self.data = path.read_bytes()
        line = self.data[-128:].decode()
        word, version, count, digest = line.split()
        need((word, version, line[-1]) == ("berth-seal", "3", "\n"), "the seal's line")
        self.size = len(self.data) - 128 - 24 * int(count)
        sums = self.data[self.size:-128]
        hashed, at = hashlib.sha256(), 0
        self.sums = list(struct.iter_unpack("<3Q", sums))
        for start, size, _ in self.sums:
            hashed.update(self.data[at:start])
            at = start + size
        hashed.update(self.data[at:self.size] + sums)
        need(f"sha256:{hashed.hexdigest()}" == digest, "the seal's digest")
        for start, size, value in self.sums:
            need(bulk_hash(self.data[start:start + size]) == value, f"the block at {start}")


class Index:
    def __init__(self, path, layers):
        data = path.read_bytes()
        magic, version, flags, size, own, pages, inodes, count = struct.unpack_from("<8sIIQQQII", data)
        need((magic, version, size, count) == (b"berthidx", 3, len(data), len(SECTIONS)), "the header")
        need(hash_of(data[:24] + bytes(8) + data[32:224]) == own, "the header's hash")
        places = struct.unpack_from("<22Q", data, 48)
        self.parts = {name: data[places[2 * i]:places[2 * i] + places[2 * i + 1]] for i, name in enumerate(SECTIONS)}
        need(hash_of(self.parts["pages"]) == pages, "the table of pages")
        body = places[20] + places[21]
        need(body % 4096 == 0, "where the first page is")
        for number, (value,) in enumerate(struct.iter_unpack("<Q", self.parts["pages"])):
            need(bulk_hash(data[body + 4096 * number:body + 4096 * (number + 1)]) == value, f"page {number}")
        self.inodes = list(struct.iter_unpack("<IIIIqQIIQQII", self.parts["inodes"]))
        need(len(self.inodes) == inodes, "the number of inodes")
        self.lists = self.read_lists()
        self.codecs = [(codec, block) for codec, _, block in struct.iter_unpack("<HHI", self.parts["layers"])]
        self.layers = [Layer(layers / name) for name in self.lists[0]]
        self.blocks = [size for (size,) in struct.iter_unpack("<I", self.parts["blocks"])]
        self.fragments = list(struct.iter_unpack("<QIIQ", self.parts["fragments"]))

    def read_lists(self):
        data, at, out = self.parts["config"], 0, []

        def number():
            nonlocal at
            at += 4
            return struct.unpack_from("<I", data, at - 4)[0]

        def text():
            nonlocal at
            size = number()
            at += size
            return data[at - size:at].decode()

        while at < len(data):
            out.append([text() for _ in range(number())])
        return out

    def name(self, offset):
        names = self.parts["names"]
        return names[offset + 1:offset + 1 + names[offset]].decode()

    def entries(self, inode):
        first, count = inode[8], inode[9]
        for name, number in list(struct.iter_unpack("<II", self.parts["entries"]))[first:first + count]:
            yield self.name(name), number

    def content(self, inode):
        size, number, start, first, fragment, offset = inode[5], *inode[7:12]
        codec, block_size = self.codecs[number]
        layer, out = self.layers[number], b""
        left = size // block_size * block_size if fragment != 0xFFFFFFFF else size
        while len(out) < left:
            stored = self.blocks[first]
            length = stored & (1 << 24) - 1
            data = layer.data[start:start + length]
            out += unpacked(codec, stored, block_size, data) if length else bytes(min(block_size, left - len(out)))
            start, first = start + length, first + 1
        if fragment != 0xFFFFFFFF:
            place, stored, _, _ = self.fragments[fragment]
            data = layer.data[place:place + (stored & (1 << 24) - 1)]
            out += unpacked(codec, stored, block_size, data)[offset:offset + size % block_size]
        need(len(out) == size, "the size of a file")
        return out


def tree_of(store):
    """{path: what is there} of the only image in a store, in the form of compare.tree()."""
    store = Path(store)
    (image,) = (store / "images").iterdir()
    manifest = (image / "manifest.json").read_bytes()
    need(hashlib.sha256(manifest).hexdigest() == image.name, "the image's name")
    index, out, first_names = Index(image / "index", store / "layers"), {}, {}

    def add(number, path):
        for name, child in index.entries(index.inodes[number - 1]):
            inode, where = index.inodes[child - 1], f"{path}{name}"
            kind = stat.S_IFMT(inode[0])
            out[where] = {"kind": kind, "mode": 0 if kind == stat.S_IFLNK else stat.S_IMODE(inode[0])}
            if kind == stat.S_IFLNK:
                out[where]["target"] = index.parts["names"][inode[8]:inode[8] + inode[5]].decode()
            if kind == stat.S_IFREG:
                data = index.content(inode)
                out[where] |= {"size": len(data), "content": hashlib.sha256(data).hexdigest(),
                    "same file as": first_names.setdefault(child, name)}
            if kind == stat.S_IFDIR:
                add(child, where + "/")

    add(1, "")
    return out
