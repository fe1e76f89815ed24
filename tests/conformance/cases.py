"""Images of every kind that people have, each with the reference that reads it.

CASES maps a name to a function of a Scene (compare.py). It makes the image, and returns the tree of the reference and
that of Berth. Deterministic: no clock, no random number, no network but a registry of this process.
"""

import bz2
import gzip
import hashlib
import json
import lzma
import struct
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import formats
from layer_writers import T
from odd_layers import END, GNU, d, f, h, s
from oci_layout import Layout, digest

CASES = {}
DOCKER = "application/vnd.docker."
MANIFEST, LIST = DOCKER + "distribution.manifest.v2+json", DOCKER + "distribution.manifest.list.v2+json"
CONFIG, LAYER = DOCKER + "container.image.v1+json", DOCKER + "image.rootfs.diff.tar.gzip"


def case(name, *arguments):
    def add(function):
        CASES[name] = (lambda scene: function(scene, *arguments)) if arguments else function
        return function
    return add


def cases(names):
    def add(function):
        for name, argument in names.items():
            case(f"{function.__name__.replace('_', '-')}-{name}", argument)(function)
        return function
    return add


# Archives of root file systems

ROOT = [d("etc"), f("etc/os", "NAME=x\n"), d("bin"), f("bin/sh", "#!", mode=0o755), s("sh", "bin/sh"),
    h("bin/ash", "bin/sh"), f("etc/zeros", bytes(100_000))]
PACKINGS = {"gzip": lambda data: gzip.compress(data, mtime=0), "bzip2": bz2.compress, "xz": lzma.compress,
    "zstd": lambda data: subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout}


def padded(data, size=10240):
    return data + bytes(-len(data) % size or size)


@cases({name: pack for name, pack in PACKINGS.items()})
def zeros_after(scene, pack):
    """As bsdtar writes to a pipe. GNU tar reads it without them: its programs differ in what they say to them."""
    tar = b"".join(ROOT) + END
    expected = scene.by_tar(scene.write("plain.tar", tar))
    return expected, scene.imported(f"docker-archive:{scene.write('padded.tar', padded(pack(tar)))}")


SPARSE = {"gnu": ["--format=gnu"],
    **{form: ["--format=pax", f"--sparse-version={form}"] for form in ("0.0", "0.1", "1.0")}}


def holes(scene):
    folder = scene.folder / "holes"
    (folder / "etc").mkdir(parents=True)
    for name, places, size in (("etc/first", [1 << 20], (1 << 20) + 5), ("etc/all", [], 1 << 20),
            ("etc/many", range(0, 1 << 22, 1 << 16), 1 << 22)):
        with open(folder / name, "wb") as out:
            for place in places:
                out.seek(place)
                out.write(b"data")
            out.truncate(size)
    return folder


@cases(SPARSE)
def sparse_root(scene, form):
    archive = scene.folder / "sparse.tar"
    subprocess.run(["tar", "-C", holes(scene), "-c", "-S", *form, "-f", archive, "etc"], check=True)
    return scene.by_tar(archive), scene.imported(f"docker-archive:{archive}")


@cases(SPARSE)
def sparse_members(scene, form):
    """An archive of an image, whose layer has holes where the files of the image have."""
    folder = holes(scene)
    layer = subprocess.run(["tar", "-C", folder, "-c", "etc"], stdout=subprocess.PIPE, check=True).stdout
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}
    saved = scene.folder / "saved"
    saved.mkdir()
    (saved / "layer.tar").write_bytes(layer)
    subprocess.run(["fallocate", "--dig-holes", saved / "layer.tar"], check=True)
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "manifest.json").write_text(
        json.dumps([{"Config": "config.json", "RepoTags": [], "Layers": ["layer.tar"]}]))
    archive = scene.folder / "saved.tar"
    subprocess.run(["tar", "-C", saved, "-c", "-S", "--hole-detection=raw", *form, "-f", archive, "."], check=True)
    return scene.by_tar(scene.write("layer.tar", layer)), scene.imported(f"docker-archive:{archive}")


# Archives of bsdtar, which is macOS's tar, too

def from_bsdtar(scene, folder, *options):
    """To a pipe, as in `bsdtar ... | ssh`: then zeros fill the last block, behind the compressed bytes as well."""
    write = ["bsdtar", "-C", folder, "-c", *options, "-f"]
    packed = subprocess.run([*write, "-", "."], stdout=subprocess.PIPE, check=True).stdout
    assert len(packed) % 10240 == 0
    archive = scene.write("bsdtar.tar", packed)
    readable = archive
    if "--zstd" in options:
        # findings/bsdtar-zstd-to-a-pipe.sh
        readable = scene.folder / "readable.tar"
        subprocess.run([*write, readable, "."], check=True)
    return scene.by_bsdtar(readable), scene.imported(f"docker-archive:{archive}")


def small_root(scene):
    """With names that not every format of tar has room for."""
    folder = scene.folder / "small"
    (folder / "etc" / ("d" * 120)).mkdir(parents=True)
    (folder / "etc" / ("d" * 120) / ("f" * 120)).write_text("long")
    (folder / "etc" / "f\u00e4lle").write_text("of no ASCII")
    (folder / "bin").mkdir()
    (folder / "bin" / "tool").write_text("#!/bin/sh\n")
    (folder / "bin" / "tool").chmod(0o755)
    (folder / "bin" / "link").symlink_to("../etc/" + "l" * 130)
    (folder / "bin" / "same").hardlink_to(folder / "bin" / "tool")
    return folder


@cases({packing: [f"--{packing}"] for packing in ("gzip", "bzip2", "xz", "zstd")})
def bsdtar(scene, options):
    return from_bsdtar(scene, small_root(scene), *options)


@cases({form: ["--format", form] for form in ("pax", "gnutar")})
def bsdtar_format(scene, options):
    return from_bsdtar(scene, small_root(scene), *options)


@case("bsdtar-sparse")
def bsdtar_sparse(scene):
    return from_bsdtar(scene, holes(scene), "--format", "pax")


@cases(SPARSE)
def sparse_beside_bsdtar(scene, form):
    archive = scene.folder / "sparse.tar"
    subprocess.run(["tar", "-C", holes(scene), "-c", "-S", *form, "-f", archive, "etc"], check=True)
    return scene.by_bsdtar(archive), scene.imported(f"docker-archive:{archive}")


@cases({
    "from-scratch": [f("hello", "x", mode=0o755), f("data/hello", "y")],
    "without-directories": [f("etc/os", "x"), f("usr/bin/tool", "y", mode=0o755)],
    "manifest-of-its-own": [*ROOT, f("manifest.json", '{"name":"an application of the web"}')],
    "layout-of-its-own": [*ROOT, f("oci-layout", '{"imageLayoutVersion":"1.0.0"}')],
})
def root_file_system(scene, entries):
    archive = scene.write("root.tar", b"".join(entries) + END)
    return scene.by_tar(archive), scene.imported(f"docker-archive:{archive}")


# Layers

def old_go(name, prefix, content):
    """GNU's magic and POSIX's prefix, as Go before 1.8 wrote them."""
    header = bytearray(f(name, content, form=GNU)[:512])
    header[345:345 + len(prefix)] = prefix.encode()
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + content.encode() + bytes(-len(content) % 512)


@cases({
    "prefix-of-old-go": [d("usr"), d("usr/share"), old_go("name", "usr/share", "x"), f("other", "y")],
})
def layer(scene, entries):
    layout = Layout(scene.folder / "layout")
    image = layout.image([b"".join(entries) + END], {"Cmd": ["/sh"]})
    layout.publish(dict(image, annotations={"org.opencontainers.image.ref.name": "x"}))
    return scene.by_umoci(layout.folder), scene.imported(f"oci:{layout.folder}:x")


def with_system(system):
    def made(scene):
        layout = Layout(scene.folder / "layout")
        tar = b"".join(ROOT) + END
        config = layout.json({"architecture": "amd64", "os": system, "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest(tar)]}}, "application/vnd.oci.image.config.v1+json")
        packed = layout.blob(gzip.compress(tar, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
        manifest = layout.json({"schemaVersion": 2, "config": config, "layers": [packed]},
            "application/vnd.oci.image.manifest.v1+json")
        layout.publish(dict(manifest, annotations={"org.opencontainers.image.ref.name": "x"}))
        return scene.by_umoci(layout.folder), scene.imported(f"oci:{layout.folder}:x")
    return made


CASES["layer-os-empty"], CASES["layer-os-in-capitals"] = with_system(""), with_system("Linux")


# Registries

class Registry:
    """Serves documents and blobs of this process, on a port that the kernel chooses."""

    def __init__(self):
        self.served = {}
        served = self.served

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):  # noqa: N802
                kind, body = served.get(self.path.rpartition("/")[2], ("text/plain", b""))
                found = self.path == "/v2/" or self.path.rpartition("/")[2] in served
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Docker-Content-Digest", digest(body))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def blob(self, data, kind):
        self.served[digest(data)] = (kind, data)
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}

    def json(self, value, kind):
        return self.blob(json.dumps(value).encode(), kind)

    def image(self, config_type):
        """Docker's manifest of an image with ROOT, whose config is called that; without a type for None."""
        tar = b"".join(ROOT) + END
        config = self.json({"architecture": "amd64", "os": "linux", "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest(tar)]}}, CONFIG)
        config["mediaType"] = config_type
        if config_type is None:
            del config["mediaType"]
        layers = [self.blob(gzip.compress(tar, mtime=0), LAYER)]
        return self.json({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}, MANIFEST)

    def tag(self, descriptor):
        self.served["tag"] = self.served[descriptor["digest"]]


def from_registry(scene, registry):
    try:
        expected = scene.by_skopeo(f"docker://{registry.name}/image:tag", "--src-tls-verify=false")
        return expected, scene.imported(f"{registry.name}/image:tag", "--plain-http", registry.name)
    finally:
        registry.server.shutdown()
        registry.server.server_close()


@cases({"octet-stream": "application/octet-stream", "json": "application/json", "html": "text/html", "empty": "",
    "absent": None})
def config_type(scene, kind):
    registry = Registry()
    registry.tag(registry.image(kind))
    return from_registry(scene, registry)


@cases({
    "sha512": {"digest": "sha512:" + hashlib.sha512(b"").hexdigest(), "size": 7},
    "of-a-later-form": {"digest": digest(b""), "size": 7, "urls": ["x"], "later": {"a": [1]}},
})
def list_with(scene, other):
    registry = Registry()
    platform = {"os": "linux", "architecture": "s390x"}
    mine = dict(registry.image(CONFIG), platform={"os": "linux", "architecture": "amd64"})
    manifests = [{"mediaType": MANIFEST, "platform": platform, **other}, mine]
    registry.tag(registry.json({"schemaVersion": 2, "mediaType": LIST, "manifests": manifests}, LIST))
    return from_registry(scene, registry)


# Files

def squashfs(scene, *options):
    folder = scene.folder / "tree"
    (folder / "usr" / "bin").mkdir(parents=True)
    (folder / "usr" / "bin" / "tool").write_text("#!/bin/sh\n")
    (folder / "usr" / "bin" / "tool").chmod(0o755)
    (folder / "large").write_bytes(bytes(range(256)) * 2000)
    (folder / "link").symlink_to("usr/bin/tool")
    image = scene.folder / "plain.sqsh"
    subprocess.run(["mksquashfs", folder, image, "-quiet", "-no-progress", "-all-root", "-mkfs-time", str(T), *options],
        stdout=subprocess.DEVNULL, check=True)
    return image


def behind(scene, start):
    image = squashfs(scene, "-comp", "zstd")
    file = scene.write("image.img", start + image.read_bytes())
    return scene.by_unsquashfs(image), scene.imported(file)


@case("singularity-2")
def singularity_2(scene):
    return behind(scene, b"#!/usr/bin/env run-singularity\n")


@case("appimage")
def appimage(scene):
    head = bytearray(4096)
    head[:11] = b"\x7fELF\2\1\1\0AI\2"
    struct.pack_into("<Q", head, 0x28, 4096 - 640)
    struct.pack_into("<HH", head, 0x3A, 64, 10)
    return behind(scene, bytes(head))


@cases({"xz": ["-comp", "xz"], "lzo": ["-comp", "lzo"]})
def snap(scene, options):
    image = squashfs(scene, *options, "-noappend", "-no-fragments")
    return scene.by_unsquashfs(image), scene.imported(image)


@case("streamed")
def streamed(scene):
    """As `mksquashfs -stream` of 4.7.3 writes: another magic first, and the superblock behind all else."""
    image = squashfs(scene, "-comp", "gzip")
    data = image.read_bytes()
    file = scene.write("streamed.sqsh", padded(b"HSQS" + bytes(92) + data[96:], 4096) + data[:96])
    # unsquashfs reads no such file before 4.7.3; what Berth imports of it is one that everybody reads.
    return scene.by_unsquashfs(image), scene.imported(file)


SIF_SYSTEM, SIF_OVERLAY = 2, 4


def sif_file(scene, images):
    """A SIF file of squashfs images, the first of them the system's. Returns the file and where the images lie."""
    head = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + bytes(16)
    parts, data, places = b"", b"", []
    for number, image in enumerate(images, 1):
        places.append(32768 + len(data))
        role = SIF_SYSTEM if number == 1 else SIF_OVERLAY
        parts += struct.pack("<iBIIIqqqqqqq128sii376s", 0x4004, 1, number, 0xf0000001, 0, places[-1], len(image),
            len(image), 0, 0, 0, 0, b"", 1, role, b"")
        data += image + bytes(-len(image) % 4096)
    head += struct.pack("<8q", 0, 0, 0, len(images), 4096, len(parts), 32768, len(data))
    return scene.write("image.sif", head.ljust(4096, b"\0") + parts.ljust(32768 - 4096, b"\0") + data), places


@case("sif")
def sif(scene):
    file, places = sif_file(scene, [squashfs(scene, "-comp", "gzip").read_bytes()])
    return scene.by_unsquashfs(file, "-offset", places[0]), scene.imported(file)


def overlay(scene, name, files):
    for path, text in files.items():
        path = scene.folder / name / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    image = scene.folder / f"{name}.sqsh"
    subprocess.run(["mksquashfs", scene.folder / name, image, "-quiet", "-no-progress", "-all-root", "-comp", "xz"],
        stdout=subprocess.DEVNULL, check=True)
    return image.read_bytes()


@case("sif-overlays")
def sif_overlays(scene):
    """Two overlay partitions without marks of removed files: then it is as if one is unpacked over the other."""
    file, places = sif_file(scene, [squashfs(scene, "-comp", "gzip").read_bytes(),
        overlay(scene, "first", {"usr/bin/tool": "first", "usr/bin/more": "first", "opt/new": "first"}),
        overlay(scene, "second", {"usr/bin/tool": "second", "large": "now small"})])
    for place in places:
        expected = scene.by_unsquashfs(file, "-offset", place, folder=scene.folder / "merged")
    return expected, scene.imported(file)


# The store, by its documented form

@case("a store, read by the rules of docs/formats.md")
def store(scene):
    layout, noise = Layout(scene.folder / "layout"), hashlib.shake_256(b"x").digest(300_001)
    below = [d("etc"), f("etc/os", "NAME=x\n"), f("etc/gone", "x"), d("bin"), f("bin/sh", noise, mode=0o755),
        s("sh", "bin/sh"), h("bin/ash", "bin/sh"), f("zeros", bytes(400_000)), f("text", "many words " * 40_000)]
    above = [f("etc/.wh.gone", ""), f("etc/os", "NAME=y\n"), d("opt", mode=0o700), f("opt/empty", "")]
    image = layout.image([b"".join(entries) + END for entries in (below, above)], {"Env": ["A=b"]})
    layout.publish(image | {"annotations": {"org.opencontainers.image.ref.name": "x"}})
    scene.pulled(f"oci:{layout.folder}:x")
    return scene.by_umoci(layout.folder), formats.tree_of(scene.folder / "store")
