"""Writes the honest inputs that fuzzing starts from: make_corpus.py BERTH_PULL OUT (OUT/<target>/<name>, the same bytes
each time).

What long runs have added is named by its hash: some forty a target of the set cover that libFuzzer makes
(-set_cover_merge=1).
"""

import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from elf_files import compat_notes, elf_loads, plugin_elfs, shared_objects
from layer_writers import pax_record

sys.path.insert(0, str(Path(__file__).parent.parent / "registry"))
from oci_layout import (  # noqa: E402
    COMPRESSORS, Layout, digest, directory, file, hardlink, opaque, symlink, tar, whiteout)

DIGEST = "sha256:" + "0123456789abcdef" * 4
OCI = "application/vnd.oci.image."
DOCKER = "application/vnd.docker.distribution.manifest."


def references():
    return ["debian", "docker://USER@nvcr.io#nvidia/pytorch:24.01-py3", f"localhost:5000/a/b-c_d:x@{DIGEST}",
        "oci:dir:ref", "oci-archive:/a/b.tar:ref", "docker-archive:x.tar:name:tag", "dockerd://ubuntu:22.04",
        "podman://quay.io/a/b", "./image.sqsh", "/images/x.sif", "x.sqsh", "[::1]:5000/a:b"]


def descriptor(media_type, **more):
    return dict({"mediaType": media_type, "digest": DIGEST, "size": 7}, **more)


def manifests():
    """(choice of the document, JSON)"""
    image = {"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
        "config": descriptor(OCI + "config.v1+json", data="e30gICAgIA=="),
        "layers": [descriptor(OCI + "layer.v1.tar+gzip"), descriptor(OCI + "layer.v1.tar+zstd")],
        "annotations": {"a": "b"}}
    docker = {"schemaVersion": 2, "config": descriptor("application/vnd.docker.container.image.v1+json"),
              "layers": [descriptor("application/vnd.docker.image.rootfs.diff.tar.gzip"),
                  descriptor("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", urls=["http://x/"])]}
    index = {"schemaVersion": 2,
        "manifests": [descriptor(OCI + "manifest.v1+json", platform={"os": "linux", "architecture": "amd64"}),
            descriptor(DOCKER + "v2+json", platform={"os": "linux", "architecture": "arm64", "variant": "v8"})]}
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [DIGEST, DIGEST]},
        "config": {"Env": ["PATH=/bin", "A=\u00e9\n"], "Entrypoint": ["/bin/sh"], "Cmd": None, "WorkingDir": "/w",
            "User": "1:2", "Volumes": {"/v": {}}}}
    schema1 = {"schemaVersion": 1, "fsLayers": []}
    return [(0, image), (1, image), (3, docker), (2, index), (4, index), (22, config), (6, config), (5, schema1)]


def http():
    return [
        'Bearer realm="https://auth.example/token?a=b",service="registry.example",scope="repository:a/b:pull"\n'
        '{"token":"abc","expires_in":300}',
        'Basic realm="x\\"y", Bearer realm="http://169.254.169.254/t"\n{"access_token":"abc"}',
        "bytes 10-19/100\nhttps://cdn.example/x?sig=1#f", "bytes */100\n//[fe80::1]:80/x", "120\nfile:///etc/passwd",
        "Wed, 21 Oct 2026 07:28:00 GMT\n/v2/other"]


def logins():
    auths = {"https://index.docker.io/v1/": {"auth": "dXNlcjpwYXNz"}, "quay.io/team": {"identitytoken": "t"},
        "nvcr.io": {"registrytoken": "r"}}
    docker = {"auths": auths, "credHelpers": {"gcr.io": "gcloud"}, "credsStore": "secretservice"}
    return [json.dumps(docker), '{"ServerURL":"x","Username":"<token>","Secret":"s"}',
        "# comment\nmachine nvcr.io login $oauthtoken password abc\nmachine auth.docker.io login u password $(cmd)\n"
        "default login x password y\n"]


def sites():
    commented = (Path(__file__).parent.parent.parent / "conf" / "berth.conf").read_text()
    keys = "\n".join(line.removeprefix("#") for line in commented.splitlines()
        if line.startswith(("#", "[")) and not line.startswith("# "))
    return [keys,
        '[registry."host:5000"]\nplain_http = true\nca = "/x"\nmirror = ["a", "b:1"]\n[limits]\nstore_size = "2G"\n',
        "BERTH_STORE_PATH=/x\nBERTH_MOUNT_THREADS=4\nBERTH_DEFAULTS_WRITABLE=yes"]


def environment_files():
    edf = ('base_environment = ["b", "c"]\nimage = "nvcr.io#nvidia/pytorch:24.01-py3"\nworkdir = "${W:-/w}"\n'
        'mounts = ["${S}:/scratch", "/a:/b:ro"]\nentrypoint = false\nwritable = true\n[env]\nPATH = "${PATH}:/x"\n'
        '[annotations]\ncom.hooks.cxi.enabled = "true"\n[annotations.com.hooks.ssh]\nenabled = "true"\n')
    own = 'base = "c"\nname = "d"\nmount_home = true\ndevices = ["nvidia.com/gpu=0", "/dev/fuse"]\nx = true\n'
    return ["\0".join([edf, own, 'image = "debian"\nmounts = ["/c:/b"]\n']), 'base = "a"', 'image = "x',
        "ml container-image=debian container-writable= mount=/a:/b variable=A=%20b device=x/y=z "
        "replaced=container-name"]


def options():
    return ["container-image=debian\ncontainer-mounts=/a:/b:ro+noexec,./c,tmpfs:/t,umount:/u\ncontainer-workdir=/w",
        "container-image=./x.sqsh\ncontainer-name=n:auto\ncontainer-env=A,B",
            "container-remap-root=\nno-container-mount-home=", "/a\\:b:/c,/d\\,e:/f:rbind"]


def packets(kind, records):
    body = b"".join(struct.pack("<II", len(key), len(value)) + key + value
        for key, value in ((k.encode(), v.encode()) for k, v in records))
    whole = struct.pack("<IHHQ", 0x48545242, 1, kind, len(body)) + body
    parts = [whole[at:at + 65536] for at in range(0, len(whole), 65536)]
    return b"".join(struct.pack("<H", len(part)) + part for part in parts)


def messages():
    environment = [("env", "A=b"), ("env", "PATH=/bin")]
    step = [("option:container-image", "debian"), ("option:container-mounts", "/a:/b"), ("job", "7"), ("step", "0"),
        ("node", "n1"), ("uid", "1000"), ("gid", "1000"), ("cwd", "/home"), ("batch-script", "")]
    return [packets(1, step + environment), packets(3, [("local-id", "3")] + environment),
        packets(5, [("workdir", "/w"), ("seccomp", "12345678"), ("set", "A=b"), ("unset", "B")]),
        packets(6, [("line", "it failed"), ("exit-code", "125"), ("shown", "1")]),
        packets(2, []) + packets(4, [("text", "pulling")])]


def special(name, kind, **more):
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in more.items():
        setattr(info, key, value)
    return info


def odd_entries():
    return [directory("d/"), file("d/f", "content"), symlink("s", "d"), file("s/through", "x"), hardlink("h", "d/f"),
        whiteout("d/gone"), opaque("d"), special("p", tarfile.FIFOTYPE),
        special("c", tarfile.CHRTYPE, devmajor=1, devminor=3),
        special("x", tarfile.REGTYPE, mtime=1.5, uid=1 << 22, pax_headers={"SCHILY.xattr.user.a": "v"})]


def tar_as(form):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for entry in odd_entries() + [file("n" * 120 + "/" + "m" * 120, "long"), symlink("l", "t" * 150)]:
            info, data = entry if isinstance(entry, tuple) else (entry, None)
            archive.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()[:-9 * 1024]


def sparse(version):
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/f", "wb") as out:
            for at in range(6):
                out.seek(at * 65536)
                out.write(b"data")
            out.truncate(500000)
        form = ["--format=gnu"] if version == "gnu" else ["--format=pax", f"--sparse-version={version}"]
        fixed = ["--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-b1"]
        pax = [] if version == "gnu" else ["--pax-option=delete=atime,delete=ctime,exthdr.name=p"]
        packed = subprocess.run(["tar", "-C", folder, "-c", "-S", *form, *fixed, *pax, "f"], stdout=subprocess.PIPE,
            check=True).stdout
        # Such a header is named after the process that made it; its checksum is put right by the target.
        for at in range(0, len(packed), 512):
            if packed.startswith(b"./GNUSparseFile.", at):
                name = b"./GNUSparseFile.0/f".ljust(100, b"\0")
                packed = packed[:at] + name + packed[at + 100:at + 148] + bytes(8) + packed[at + 156:]
        # GNU tar keeps whole blocks of the file system around each piece of data: cut the entry after its map and
        # first bytes.
        return packed[:20 * 512]


def tars():
    forms = [tar_as(form) for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)]
    with_holes = [sparse(version) for version in ("gnu", "0.0", "0.1", "1.0")]
    return [bytes([13]) + data for data in forms + [tar(odd_entries())[:7680]] + with_holes]


def written_by_tar(form):
    """What GNU tar makes of a small tree: long names, links, a FIFO, an old time; in PAX UTF-8 and an xattr."""
    with tempfile.TemporaryDirectory() as folder:
        names = ["d", "d/f", "hard", "link", "n" * 90, "old", "pipe"]
        os.makedirs(f"{folder}/d")
        Path(f"{folder}/d/f").write_bytes(b"content")
        os.link(f"{folder}/d/f", f"{folder}/hard")
        os.symlink("d/f" if form in ("v7", "ustar") else "t" * 150, f"{folder}/link")
        Path(f"{folder}/{names[4]}").write_bytes(bytes(range(256)) * 3)
        Path(f"{folder}/old").write_bytes(b"")
        os.mkfifo(f"{folder}/pipe")
        if form == "v7":
            names.remove("pipe")
        else:
            os.makedirs(f"{folder}/{'p' * 60}/{'q' * 60}")
            names.append("p" * 60 + "/" + "q" * 60)
        if form == "posix":
            names.append("caf\u00e9")
            Path(f"{folder}/caf\u00e9").write_bytes(b"utf-8")
            os.setxattr(f"{folder}/d/f", "user.a", b"value")
        for name in names:
            os.utime(f"{folder}/{name}", (0, -5 if name == "old" else 1_600_000_000), follow_symlinks=False)
        fixed = ["--owner=root:3000000", "--group=root:0", "--mode=u=rwX,go=rX", "--numeric-owner", "-b1",
            "--no-recursion"]
        more = ["--xattrs", "--pax-option=delete=atime,delete=ctime,exthdr.name=p"] if form == "posix" else []
        if form in ("v7", "ustar"):
            names.remove("old")
            fixed[0] = "--owner=root:1000"
        return subprocess.run(["tar", "-C", folder, "-c", f"--format={form}", *fixed, *more, *names],
            stdout=subprocess.PIPE, check=True).stdout


def extended(kind, records):
    """An extended header: the records of PAX, or the name of GNU."""
    body = b"".join(pax_record(*record) for record in records) if isinstance(records, list) else records + b"\0"
    return info(kind, size=len(body)) + body.ljust((len(body) + 511) // 512 * 512, b"\0")


def differing_tars():
    """Those that our reader and libarchive read alike, and one for each kind of known difference."""
    one = tar([file("f", "x")])[:1024]
    link = info(tarfile.SYMTYPE, linkname="f")
    sized = one + info(tarfile.LNKTYPE, linkname="f", size=3) + b"abc".ljust(512, b"\0")
    prefixed = one[:345] + b"d/e/" + one[349:]
    named = [(b"path", b"e\xcc\x81"), (b"linkpath", b"\xff"), (b"mtime", b"-1.5"), (b"size", b"1"),
        (b"uid", b"4294967296")]
    xattrs = [(b"SCHILY.xattr.user.a", b"1"), (b"SCHILY.xattr.user.a", b"2\0\n3"), (b"SCHILY.xattr.", b"4")]
    foreign = [(b"LIBARCHIVE.xattr.user.b", b"YQ=="), (b"RHT.security.selinux", b"s")]
    empty = [(b"path", b""), (b"size", b""), (b"uid", b""), (b"mtime", b"")]
    path = extended(b"x", [(b"path", b"p")])
    pairs = [path + extended(b"L", b"l") + one, extended(b"L", b"l") + path + one,
             extended(b"L", b"1") + extended(b"L", b"2") + one, path + extended(b"x", [(b"path", b"q")]) + one,
             extended(b"K", b"k") + one, extended(b"K", b"k") + link, extended(b"g", named[2:3]) + path + one]
    return ([data[1:] for data in tars()] +
            [written_by_tar(form) for form in ("v7", "oldgnu", "gnu", "ustar", "posix")] +
            [sized, prefixed, info(b"V") + sized] + pairs +
            [extended(b"x", records) + one for records in (named, xattrs, foreign, empty)] +
            [extended(b"x", [(b"linkpath", b"\xc3\xa9")]) + link,
             extended(b"x", [(b"hdrcharset", b"BINARY"), (b"path", b"\xff")]) + one])


def info(kind, **fields):
    """A header alone."""
    out = tarfile.TarInfo("h")
    out.type = kind
    for key, value in fields.items():
        setattr(out, key, value)
    return out.tobuf(tarfile.USTAR_FORMAT)


def packed():
    data = tar([directory("d"), file("d/f", "content" * 30)])[:3072]
    return [COMPRESSORS["+gzip"](data), COMPRESSORS["+zstd"](data),
        gzip.compress(data[:1024], mtime=0) + gzip.compress(data[1024:], mtime=0), data]


def tree(folder):
    os.makedirs(f"{folder}/d/e")
    Path(f"{folder}/d/f").write_bytes(b"short")
    Path(f"{folder}/d/big").write_bytes(bytes(range(256)) * 20)
    Path(f"{folder}/hole").write_bytes(bytes(9000))
    os.symlink("d/f", f"{folder}/link")
    os.link(f"{folder}/d/f", f"{folder}/again")
    os.mkfifo(f"{folder}/fifo")
    os.setxattr(f"{folder}/d/f", "user.a", b"value")


def squashfs():
    out = []
    with tempfile.TemporaryDirectory() as folder:
        tree(f"{folder}/tree")
        plain = ["-noI", "-noD", "-noF", "-noX"]
        for how in (["-comp", "gzip"] + plain, ["-comp", "gzip", "-no-fragments"] + plain, ["-comp", "gzip"],
                ["-comp", "zstd"], ["-comp", "xz"], ["-comp", "lz4"], ["-comp", "lzo"]):
            image = f"{folder}/image"
            subprocess.run(["mksquashfs", f"{folder}/tree", image, "-noappend", "-quiet", "-no-progress", "-nopad",
                "-b", "4096", "-all-time", "0", "-mkfs-time", "0", "-all-root", *how],
                check=True, stdout=subprocess.DEVNULL)
            out.append(Path(image).read_bytes())
    return out


def sif(image, *overlays):
    """A SIF file whose system partition is `image`, and `overlays` its overlay partitions."""
    header = b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0") + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + bytes(16)
    count, data, descriptors = 1 + len(overlays), b"", b""
    first = 128 + 585 * count
    for number, part in enumerate((image, *overlays), 1):
        place = (first + len(data), len(part), len(part))
        descriptor = struct.pack("<iBIII7q", 0x4004, 1, number, 1, 0, *place, 0, 0, 0, 0)
        descriptor += b"image".ljust(128, b"\0") + struct.pack("<ii", 1, 2 if number == 1 else 4)
        descriptors += descriptor.ljust(585, b"\0")
        data += part
    header += struct.pack("<8q", 0, 0, 0, count, 128, 585 * count, first, len(data))
    return header.ljust(128, b"\0") + descriptors + data


def overlay():
    """A small squashfs with an overlay's marks of a removed file."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/tree/d")
        Path(f"{folder}/tree/d/new").write_bytes(b"new")
        os.setxattr(f"{folder}/tree/d", "user.overlay.opaque", b"y")
        subprocess.run(["mksquashfs", f"{folder}/tree", f"{folder}/image", "-noappend", "-quiet", "-no-progress",
            "-nopad", "-b", "4096", "-all-time", "0", "-mkfs-time", "0", "-all-root", "-noI", "-noD", "-noF", "-noX",
            "-p", "again c 0 0 0 0 0"], check=True, stdout=subprocess.DEVNULL)
        return Path(f"{folder}/image").read_bytes()


def appimage(image):
    """`image` behind a program of 64 bytes, which says that it is an AppImage."""
    head = bytearray(64)
    head[:11] = b"\x7fELF\2\1\1\0AI\2"
    struct.pack_into("<Q", head, 0x28, 64)
    return bytes(head) + image


def streamed(image):
    """As `mksquashfs -stream` writes it."""
    return b"HSQS" + bytes(92) + image[96:] + bytes(-len(image) % 4096) + image[:96]


def stored(program):
    """The index of a stored image, and the image as one file with its config."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(f"{folder}/layout")
        entries = [directory("d"), file("d/f", "content"), file("d/g", bytes(range(256)) * 40), symlink("s", "d/f"),
            hardlink("h", "d/f"), special("x", tarfile.REGTYPE, pax_headers={"SCHILY.xattr.user.a": "v"})]
        layout.publish(layout.image([tar(entries), tar([file("d/new", "x")])], {"Env": ["A=b"], "Cmd": ["/d/f"]}))
        subprocess.run([program, "--store", f"{folder}/store", f"oci:{folder}/layout"], check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run([program, "import", "--store", f"{folder}/store", "-o", f"{folder}/x.sqsh",
            f"oci:{folder}/layout"], check=True, stderr=subprocess.DEVNULL)
        index = next(Path(folder, "store", "images").glob("*/index")).read_bytes()
        image = Path(folder, "x.sqsh").read_bytes()
        return index, image.replace(folder.encode(), b"/".ljust(len(folder), b"x"))


def loader_cache(names):
    """/etc/ld.so.cache of glibc 2.32 and later, with an extension."""
    start, strings, entries = 48 + 24 * len(names), b"", b""
    for name in names:
        path = f"/usr/lib/{name}".encode() + b"\0"
        entries += struct.pack("<iIIIQ", 0x303, start + len(strings), start + len(strings) + len(name) + 1, 0, 0)
        strings += name.encode() + b"\0" + path
    hwcap = start + len(strings)
    strings += b"x86-64-v3\0"
    extension = (start + len(strings) + 3) // 4 * 4
    head = b"glibc-ld.so.cache1.1" + struct.pack("<IIB3xI3I", len(names), len(strings), 2, extension, 0, 0, 0)
    tail = struct.pack("<6I", 0xEAA42174, 1, 1, 0, extension + 24, 4) + struct.pack("<I", hwcap)
    return (head + entries + strings).ljust(extension, b"\0") + tail


def cdi():
    """A specification as JSON, what a hook prints, and one as YAML."""
    node = [{"path": "/dev/x", "hostPath": "/dev/y", "permissions": "rw"}]
    links = {"hookName": "createContainer", "path": "/usr/bin/nvidia-ctk",
        "args": ["nvidia-ctk", "hook", "create-symlinks", "--link", "a::/usr/lib64/b"]}
    chmod = {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook",
        "args": ["nvidia-cdi-hook", "chmod", "--mode", "755", "--path", "/dev/dri"]}
    edits = {"env": ["A=b"], "deviceNodes": node,
        "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro"]},
            {"hostPath": "tmpfs", "containerPath": "/t", "type": "tmpfs", "options": ["size=1g", "mode=1777"]}],
        "hooks": [links, chmod],
        "additionalGids": [1]}
    spec = {"cdiVersion": "0.5.0", "kind": "vendor.com/gpu", "devices": [{"name": "0", "containerEdits": edits}]}
    yaml = "cdiVersion: 0.6.0\nkind: vendor.com/gpu\ndevices:\n  - name: \"0\"\n    containerEdits:\n" \
           "      deviceNodes: [{path: /dev/x, major: 1}]\n      env: ['A=b']\n"
    return [json.dumps(spec), json.dumps(edits)], [yaml, json.dumps(spec)]


def devices():
    """(kind, text)"""
    return [
        (0, b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n"),
        (0, b"Character devices:\n195 nvidia\n234 nvidia-caps\n\nBlock devices:\n8 sd\n"),
        (0, b"gpu0/gi7/access 66\ngpu0/gi7/ci0/access 67\n"),
        (0, b"Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-1\nDevice Minor: \t 3\n"),
        (0, b"driver 570.86.15 12.8\ngpu 00000000:1B:00.0 0 GPU-a 9.0 nvidia mig\nslice 0 7 0 MIG-a\n"),
        (1, b"NVIDIA_VISIBLE_DEVICES=0,GPU-1,0:1\nNVIDIA_DRIVER_CAPABILITIES=all\n"
            b"NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver<571\nNVIDIA_IMEX_CHANNELS=0\n"
            b"CUDA_MPS_PIPE_DIRECTORY=/tmp/mps"),
        (1, b"GPU-1 0 0 5 /dev/nvidia0\nCUDA_VISIBLE_DEVICES=5\nROCR_VISIBLE_DEVICES=5\n"
            b"MELLANOX_VISIBLE_DEVICES=0,mlx5_0"),
        (1, b"CUDA_VERSION=9.0.176\nX=1"),
        (2, b"env\tA=b\nnode\t/a\t/b\nmount\t/a\t/b\tro\texec\nlink\t/a\tb\nlibraries\t/a\n"
            b"hook\tenable-cuda-compat\nmode\t/dev/dri\t493\n")]


def said():
    """Of the helper to slurmstepd."""
    lines = [packets(4, [("text", f"saving {at}\x1b\u00e9")]) for at in range(3)]
    return [b"".join(lines), lines[0] * 210, packets(4, [("text", "x" * 3000)]),
        packets(4, [("a", "b")] * 9), packets(6, [("line", "x")])]


def heads():
    lines = ["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 206 Partial Content\r\n"
        "Content-Range: bytes 10-19/100\r\nETag: \"x\"\r\n\r\n",
        'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm="https://auth.example/token",service="r"\r\n'
        'WWW-Authenticate: Basic realm="a, b"\r\n\r\n{"errors":[{"code":"DENIED","message":"no\\u001b way"}]}',
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n\r\n<html>slower</html>",
        f"HTTP/1.1 200 OK\r\nDocker-Content-Digest: {DIGEST}\r\nContent-Type: {OCI}manifest.v1+json\r\n\r\n{{}}",
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 120\r\n\r\n"]
    status = [206, 401, 429, 200, 503]
    return [struct.pack(">H", number) + text.encode() for number, text in zip(status, lines)]


def environments():
    """(kind, text)"""
    answer = f"SLURM_BERTH_FROZEN=debian:12 {DIGEST}"
    meeting = "SLURM_SRUN_COMM_HOST=10.0.0.1\0SLURM_BERTH_MEETING=debian:12 4000 abcdef"
    pmix = "SLURM_PMIX_MAPPING_SERV=x\0SLURM_PMIX_TMPDIR=/tmp\0PMIX_SERVER_TMPDIR=/s\0SLURM_NODEID=0"
    return [(0, "BERTH_CONTAINER_IMAGE=debian\0PYXIS_CONTAINER_WORKDIR=/w\0BERTH_CONTAINER_WRITABLE=yes"),
        (0, "BERTH_CONTAINER_MOUNT_HOME=no\0PYXIS_CONTAINER_MOUNT_HOME=yes\0BERTH_CONTAINER_ENV=A,B"),
        (1, answer), (1, meeting), (1, pmix), (1, "n[3-5,9],m1"),
        (2, "PATH=/bin\0KEPT=image\0LANG=C\0PATH=/usr/bin\0KEPT=task\0SLURM_PROCID=0"),
        (2, "PYTORCH_VERSION=2\0A=1\0SLURM_PROCID=1\0SLURM_STEP_NODELIST=n[1-2]\0SLURM_JOB_ID=7"),
        (3, "PATH=/bin\nA=\"b c\"\nB='x'\n#\n" + 'cd "/workspace" && unset OLDPWD || exit 1\n'),
        (4, "# a\nA=${HOME}\nB='x'\ntmpfs /a tmpfs size=1G\n${X}/b\t/c none x-create=dir,bind,ro 0 -1\n"
            "/d\\040e rbind\n"),
        (5, '#!/bin/sh\nexport PATH="/opt/bin:/bin"\nexport LANG="${LANG:-"C.UTF-8"}"\nexport OPEN="${OPEN:-}"\n'
            "A='b c'\nexport A\nexport B=a\nexport C=\"\\$x \\\"\"\nexport D=$(id)\n"),
        (6, '{\n\t"a.b": "c \\"d\\"",\n\t"e": 1\n}\n'),
        (7, "/b:$PATH:${A:-b}:\\$LIB:${A+c}$UID`id`"), (7, "a$(id -u)${A#b}$")]


def records(*pairs):
    return "".join(f"{key} {len(value.encode())}\n{value}\n" for key, value in pairs)


def container_records():
    """(1 when the first line is left out, text)"""
    common = [("image", "debian:12"), ("digest", DIGEST), ("image-file", ""), ("identity", ""),
        ("created", "1700000000")]
    more = [("mount", "/a:/b:ro,tmpfs:/t"), ("remap-root", "true"), ("writable", "no"), ("mount-home", "yes"),
        ("unshare", "ipc")]
    return [(0, "berth-container 1\n" + records(*common)), (1, records(*common))] + \
        [(1, records(*common, one)) for one in more] + [(1, "a 3\nb\nc\nd 0\n\n")]


def seals():
    """(whether it lies as it is, bytes)"""
    image = bytes(range(256)) * 2
    blocks = struct.pack("<4B", 10, 100, 5, 200)
    line = f"berth-seal 3 0 {DIGEST}".ljust(127).encode() + b"\n"
    return [(0, b"\x00\x20" + b"\x02" + blocks + image), (0, b"\x01\x90" + b"\x00" + image), (1, image + line),
        (1, image + struct.pack("<3Q", 0, 100, 7) + line.replace(b"3 0", b"3 1"))]


def remainders():
    """(kind, records, remainder, artifact or tar)"""
    blob = {"digest": DIGEST, "size": 3, "annotations": {"vnd.berth.diff-id": DIGEST}}
    artifact = {"schemaVersion": 2, "artifactType": "application/vnd.berth.image.v1",
        "subject": {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": DIGEST, "size": 5},
        "layers": [blob | {"mediaType": "application/vnd.berth.layer.v1.squashfs"},
            blob | {"mediaType": "application/vnd.berth.remainder.v1+zstd"}]}
    return [(0, b"\x06abc\x15\x00\x01f\x00"), (0, b"\x0f\x03\x01f\x00"), (0, b"\x15\x00\xff\xff\xff\x7f"),
        (1, b"\x28\xb5\x2f\xfd\x20\x01\x09\x00\x00\x00"), (2, json.dumps(artifact))] + [(3, tar[1:]) for tar in tars()]


def stores():
    """(kind, text)"""
    return [(0, f"digest {DIGEST}\ntime 1700000000\netag \"abc\"\nsource mirror.example\n"), (0, f"digest {DIGEST}\n"),
        (1, f"image {DIGEST}\n"), (2, "node1\n/home/u/.local/share/berth/containers/global_x"),
        (3, "node1.example.4711"), (4, f"\n{DIGEST} r/b:c\n\n{DIGEST} r/a:c\n"),
        (5, "berthpf1" + "\1" * 8 + "\2\0\0\0" + "\7\0\0\0" + "\0" * 4 + "\3\0\0\0" + "\2\0\0\0" + "\0" * 8 +
            "\2\0\0\0\4a.so")]


def tar_headers():
    """(kind, block or records)"""
    whole = sparse("gnu")
    at = whole.find(b"S", 156)
    pieces = b"".join(b"%011o\0%011o\0" % (at * 65536, 4096) for at in range(21)) + b"\x01" + bytes(7)
    pax = b"".join(pax_record(*record) for record in [(b"path", b"p"), (b"size", b"5"), (b"uid", b"4294967296"),
        (b"mtime", b"-1.5"), (b"SCHILY.xattr.user.a", b"1\0"), (b"linkpath", b"")])
    holes = b"".join(pax_record(*record) for record in [(b"GNU.sparse.major", b"0"), (b"GNU.sparse.size", b"9"),
        (b"GNU.sparse.offset", b"0"), (b"GNU.sparse.numbytes", b"4"), (b"GNU.sparse.map", b"0,4,8,1"),
        (b"GNU.sparse.name", b"f")])
    return [(0, whole[at // 512 * 512:][:512]), (0, info(tarfile.REGTYPE, size=1 << 30)),
        (0, info(tarfile.SYMTYPE, linkname="x")), (1, pieces + pieces[:504] + bytes(8)), (2, pax), (2, holes),
        (3, pax_record(b"mtime", b"1") + pax_record(b"hdrcharset", b"BINARY"))]


def procs():
    """(kind, text)"""
    unified = "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n"
    first = "8:pids:/\n6:freezer:/slurm/uid_2001/job_5/step_0\n4:cpu,cpuacct:/slurm/uid_2001/job_5\n"
    mounts = "36 35 98:0 / / rw,noatime shared:1 master:2 - overlay berth-1 rw,lowerdir=a\n" \
             "37 36 0:30 /a /mnt\\040b rw - tmpfs tmp\\011x rw\n"
    status = "Name:\tx\nState:\tZ (zombie)\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000100\n"
    return [(0, unified), (0, first), (1, unified + "\n200000 100000\n"), (1, first + "\n50000\n"), (2, mounts),
        (2, "a b"), (3, status)]


def entrypoints():
    """(kind, bytes)"""
    return [(0, b"4711\n"), (0, b"-1\n"), (1, b"\x01\x00one\n\ntwo\x1b[31m\nrest"), (1, b"\x80\xffno end"),
        (2, b"A=1\0B=2\0PWD=/\0\0A=1\0B=3\0NEW=a=b\0SHLVL=1")]


def agreements():
    """(kind, words)"""
    return [(0, f"berth-agree-1 ask n1 {DIGEST} 00ff"), (1, f"berth-agree-1 run n1 {DIGEST}"),
        (2, "10.0.0.1 4000 abcdef n1 3"), (3, f"berth-agree-1 ask n1 {DIGEST} 00ff {'0' * 64}")]


def part(chunk, offset, data):
    """Of a chunk, as a node sends it."""
    return struct.pack("<4I32x", chunk, len(data), offset, 0) + data


def shares():
    """(kind, words or bytes)"""
    key, peer = "sha256//" + "a2" * 21 + "s=", "n1 192.0.2.1 4000 "
    return [(0, f"hello {peer}{key} 3 {DIGEST} 5 0 whole"), (0, f"documents 1 {DIGEST} YS9i eyJhIjoxfQ=="),
        (0, "have 3 10 0 77 010"), (0, f"done 2 4096 {DIGEST}"), (0, "done 2"), (0, "alone - bm8="),
        (0, f"complaint {key} 1 wrong c2xvdw=="), (0, "progress 1000 2000 3000 4 1 3 0 0 12 1 700 0"),
        (0, "finished"), (1, "documents 0"), (1, f"plan - 1 {peer}{key} 2 own 0 0 take 1 0 1 0"),
        (1, f"role 1 1 {peer}{key} take 1 0 0"), (1, "alone 4 bm8="), (1, "status 8 3 1 2 3 4 n7 5 6 1"),
        (1, "finished"), (2, "berth-share-1 00ff"), (2, "berth-share-2 00ff more"), (3, "berth-share-1 00ff"),
        (4, f"done 1 {'0' * 64}"), (0, f"hello {peer}{key} 3 {DIGEST} 4 25000"), (0, "done 3"),
        (1, f"plan 0 1 {peer}{key} 0"), (1, f"done 3 4096 {DIGEST} n1"), (5, struct.pack("<4I32x", 7, 4096, 65536, 0)),
        # Two chunks at once, one of them begun anew, a word for nothing, and the end.
        (6, b"\x0b" + b"".join([part(5, 0, b"abc"), part(1, 0, b"x"), part(5, 3, b"d"), part(5, 0, b"ABCDEF"),
            part(0xffffffff, 0, b""), part(1, 1, b"y"), part(0xfffffffe, 0, b"")])), (1, "gone 3")]


def share_paths():
    """Nodes, who has gone, and what a node asks for."""
    manifest, layer = (hashlib.sha256(text).hexdigest() for text in (b"image", b"0"))
    return [bytes([nodes - 1, gone]) + path.encode() for nodes, gone, path in [
        (2, 9, f"/{layer}/1/7"), (2, 9, f"/{layer}/0/4294967295"), (2, 9, f"/{manifest}/3/2"),
        (2, 1, f"/{manifest}/all/1\nAA=="), (17, 3, f"/{manifest}/all/16\nHw=="),
        (9, 0, f"/{manifest}/all/-\n"), (2, 9, f"/{manifest}/all/4294967295\n"),
        (17, 9, f"/{manifest}/all/17\n"), (2, 9, f"/{manifest}/5/1")]]


JOBS = ["12\n12|12|RUNNING|2001|n[1-2]\n", "20_2.0\n20|20_1|COMPLETED|2001|n1\n21|20_2|RUNNING|2001|n1\n",
    "7.batch\nslurm_load_jobs error: Invalid job id specified\n",
    "30\n31|30_1|RUNNING|2001|n1\n32|30_2|RUNNING|2001|n1\n",
    "9.interactive\n9|9|PENDING|2002|\n"]
PASSWD = "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/sh\nnobody:x:65534:65534::/:\n"
PROLOG = "export A=1\nexport  B = x y=z \nunset  C\nprint hello  there\nprint\nnoise\nexport D\nunset \nexport E="
PLUGSTACK = "helper=/usr/bin/berth\nrun_size=4M\nrun_inodes=4096\nuser_folders=/var/lib/berth\n" \
            "container_scope=job\nexecute_entrypoint=yes\nsbatch_support=no"


def migrations():
    conf = "# x\nENROOT_DATA_PATH /a/user-$(id -u)\nENROOT_ROOTFS_WRITABLE=yes # why\nENROOT_UNSHARE_IPC y\n" \
           "ENROOT_SQUASH_OPTIONS -comp zstd -Xcompression-level 3\nENROOT_RESTRICT_DEV \"no\"\n" \
           "NVIDIA_X ${HOME:-/}'$y'\nhttps_proxy http://p:3128/\nENROOT_CONFIG_PATH ~/.enroot\nx"
    environ = "A=b\nTERM=${TERM}\nB=\"c d\"\nMELLANOX_VISIBLE_DEVICES=all"
    fstab = "tmpfs /tmp tmpfs size=1G\n" \
            "${HOME}/a /b none x-create=dir,bind,ro 0 -1\n/a\\040b /c rbind\nnone /d none x-detach"
    plugstack = "include a.d/*\nrequired /x/spank_pyxis.so runtime_path=/run container_scope=job execute_entrypoint=1"
    logins = "machine a login b password c\nmachine d login e password $(f)"
    podman = "unqualified-search-registries = ['docker.io']\n[[registry]]\nlocation = 'a.b'\ninsecure = true\n" \
             "[[registry.mirror]]\nlocation = 'c.d:5'\n[aliases]\n'x' = 'y/z'\n"
    containerd = "server = 'https://a.b'\n[host.'http://c.d']\ncapabilities = ['pull']\nca = ['x', 'y']\n"
    return ["\n---\n".join((conf, environ, fstab, plugstack, logins, podman, containerd)), conf]


def mig():
    """What berth-mig reads, behind two lines: GPUs of a job, and files of gres.conf."""
    record = "berth-mig 1\ngpu GPU-0b\njob 7\ninstance 19 0 1\ncompute 0 0 1\ninstance 14 2 2\ncompute 0 0 1\n" \
             "compute 7 1 1\nend\n"
    scontrol = "JobId=7 JobName=x\n   JOB_GRES=gpu:h100:2\n     Nodes=n1 CPU_IDs=0-3 Mem=0 GRES=gpu:h100:2(IDX:0-1)\n"
    devices = "0,2\n/dev/nvidia[0-1,3],/dev/nvidia2\n"
    return [devices + rest for rest in (record, scontrol, "3g.40gb,1g.10gb:4", "1g.6gb+me,2g.12gb",
        scontrol.replace("gpu", "shard"))] + ["7\n/dev/nvidia[0-7]\n7g.141gb"]


def policies():
    """(choice, a name of an image and the document in lines of their own): policy.json, registries.d."""
    keys = {"type": "sigstoreSigned", "keyPath": "/etc/keys/a.pub",
        "signedIdentity": {"type": "remapIdentity", "prefix": "mirror.example:5000/v", "signedPrefix": "docker.io"}}
    gpg = {"type": "signedBy", "keyType": "GPGKeys", "keyPaths": ["/a.gpg", "/b.gpg"],
        "signedIdentity": {"type": "exactReference", "dockerReference": "docker.io/library/debian:12"}}
    fulcio = {"type": "sigstoreSigned", "fulcio": {"caPath": "/ca", "oidcIssuer": "https://x", "subjectEmail": "a@b"},
        "rekorPublicKeyData": "YQ=="}
    policy = {"default": [{"type": "reject"}], "transports": {
        "docker": {"": [{"type": "insecureAcceptAnything"}], "docker.io/library": [keys, gpg], "*.example": [fulcio]},
        "dir": {"/images": [{"type": "insecureAcceptAnything"}]}, "docker-daemon": {"": [{"type": "reject"}]}}}
    lookaside = "default-docker:\n  lookaside: file:///var/lib/sigs\n" \
                "docker:\n  docker.io/library:\n    sigstore: https://sigs.example\n"
    return [(0, "debian:12\n" + json.dumps(policy)), (1, f"h.example:5000/a/b@{DIGEST}\n" + lookaside)]


def signatures():
    """(choice, a document of one of the forms in which signatures are attached)"""
    def payload(kind):
        return json.dumps({"critical": {"type": kind, "image": {"docker-manifest-digest": DIGEST},
            "identity": {"docker-reference": "h.example/a:1"}}, "optional": {"creator": "x", "timestamp": 1700000000}})
    statement = json.dumps({"_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "h.example/a:1", "digest": {"sha256": DIGEST[7:]}}],
        "predicateType": "https://sigstore.dev/cosign/sign/v1", "predicate": {}})
    bundle = {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "x"}},
        "dsseEnvelope": {"payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": "c2ln"}],
            "payload": base64.b64encode(statement.encode()).decode()}}
    message = dict(bundle, messageSignature={"messageDigest": {"algorithm": "SHA2_256",
        "digest": base64.b64encode(bytes(32)).decode()}, "signature": "c2ln"})
    del message["dsseEnvelope"]
    layer = descriptor("application/vnd.dev.cosign.simplesigning.v1+json",
        annotations={"dev.cosignproject.cosign/signature": "c2ln"})
    attached = {"schemaVersion": 2, "config": descriptor(OCI + "config.v1+json"),
        "layers": [layer, descriptor(bundle["mediaType"])]}
    referrers = {"schemaVersion": 2,
        "manifests": [descriptor(OCI + "manifest.v1+json", artifactType=bundle["mediaType"])]}
    armor = "-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: x\n\nYWJj\n=abcd\n-----END PGP PUBLIC KEY BLOCK-----\n"
    status = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG AB x\n" \
             f"[GNUPG:] VALIDSIG {'A' * 40} 2026-01-01 1 0 4 0 1 10 00 {'B' * 40}\n"
    key = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n" \
          "-----END PUBLIC KEY-----\n"
    record = "berth-signatures 1\nadmitted h.example/a:1\tdefault\nsigner sha256:ab\t/k.pub\th.example/a:1\n" \
             "source 00ff\t/etc/containers/policy.json\n"
    kept = json.dumps({"signatures": [{"kind": "payload", "content": "e30=", "signature": "c2ln", "source": "a tag"}]})
    return [(0, payload("cosign container image signature")), (1, payload("atomic container signature")),
        (2, json.dumps(bundle)), (2, json.dumps(message)), (3, statement), (4, json.dumps(attached)),
        (5, json.dumps(referrers)), (6, armor), (7, status), (8, kept), (9, record), (10, key)]


def archives():
    """(kind, archive) of one image as docker save, in both of its forms, skopeo and docker export write it."""
    layer = tar([file("f", "x")])[:1536]
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}).encode()
    name = digest(config).partition(":")[2]
    listed = [{"Config": f"{name}.json", "RepoTags": ["a:1"], "Layers": ["one/layer.tar"]}]
    docker = tar([file("manifest.json", json.dumps(listed)), file(f"{name}.json", config),
        symlink("one/layer.tar", "../other/layer.tar"), file("other/layer.tar", layer)])
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(f"{folder}/layout")
        layout.publish(layout.image([layer], {}))
        oci = tar([file(str(path.relative_to(layout.folder)), path.read_bytes())
            for path in sorted(layout.folder.rglob("*")) if path.is_file()])
    export = tar([directory("etc"), file("etc/f", "x")])[:2560]
    return [(0, docker), (1, oci), (1, gzip.compress(oci, mtime=0)), (0, export), (1, lzma.compress(oci)),
        (0, bz2.compress(docker)), (0, lzma.compress(export, lzma.FORMAT_ALONE))]


def main():
    program, out = sys.argv[1], Path(sys.argv[2])
    index, file_with_config = stored(program)
    images = squashfs()
    json_specs, yaml_specs = cdi()
    cache = loader_cache(["libnvidia-ml.so.1", "libcuda.so.10", "libcuda.so.1"])
    everything = {
        "accounts": ["alice\n1000\n" + PASSWD, "root\n0\n" + PASSWD, "users\n100\nroot:x:0:\nusers:x:7:alice\n"],
        "cdi_json": json_specs, "cdi_yaml": yaml_specs, "compat_note": compat_notes(), "follow": said(),
        "http_head": heads(), "elf_loads": elf_loads(), "plugin_elf": plugin_elfs(), "shared_object": shared_objects(),
        "plugstack": [PLUGSTACK, "run_size=0\nuser_folders="],
        "migrate": migrations(), "mig": mig(), "job": JOBS, "task_prolog": [PROLOG],
        "loader_cache": [cache, b"ld.so-1.7.0\0" + struct.pack("<I12x4x", 1) + cache, b"libc.so.6\nlibc.so.10\nlibc"],
        "reference": references(),
        "manifest": [bytes([choice]) + json.dumps(value).encode() for choice, value in manifests()], "http": http(),
        "logins": logins(), "site": sites(),
        "environment_file": environment_files(), "options": options(), "messages": messages(), "tar": tars(),
        "tar_differs": differing_tars(), "packed": packed(),
        "archive": [bytes([kind]) + data for kind, data in archives()],
        "squashfs": images + [sif(images[0]), file_with_config, appimage(images[0]), streamed(images[0]),
            b"#!/usr/bin/env run-singularity\n" + images[0], sif(images[0], overlay())],
        "index": [index], "share_paths": share_paths(),
    }
    with_kind = {
        "agreement": agreements(), "devices": devices(), "entrypoint": entrypoints(), "environment": environments(),
        "policy": policies(), "proc": procs(), "records": container_records(), "remainder": remainders(),
        "seal": seals(), "share": shares(),
        "signature": signatures(), "store": stores(), "tar_header": tar_headers(),
    }
    for target, inputs in with_kind.items():
        everything[target] = [bytes([kind]) + (data.encode() if isinstance(data, str) else data)
            for kind, data in inputs]
    for target, inputs in everything.items():
        (out / target).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(inputs):
            (out / target / f"{number:02}").write_bytes(data.encode() if isinstance(data, str) else data)


if __name__ == "__main__":
    main()
