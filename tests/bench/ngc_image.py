"""A deterministic image in the shape of the large ones that GPU users pull, as an OCI layout: 14 layers, at scale 1
about 3.6 GB unpacked and 60,000 entries, a few huge libraries, tens of thousands of small files, whiteouts, links.

The contents are made of chunks of which some are noise and some come from a small table, so that they compress about as
such images do.
"""
import concurrent.futures
import gzip
import hashlib
import io
import json
import os
import random
import tarfile

# Name, megabytes of large files, number of small files, directory: the base first.
LAYERS = [
    ("base", 30, 4000, "usr/share"),
    ("certificates", 0, 300, "etc/ssl/certs"),
    ("compiler", 180, 2500, "usr/lib/gcc"),
    ("cuda-runtime", 620, 300, "usr/local/cuda/lib64"),
    ("cuda-libraries", 900, 200, "usr/local/cuda/targets"),
    ("collectives", 210, 60, "usr/lib/nccl"),
    ("mpi", 60, 1800, "opt/hpcx"),
    ("python", 40, 9000, "usr/lib/python3"),
    ("framework", 780, 14000, "usr/local/lib/python3/dist-packages/torch"),
    ("packages", 160, 21000, "usr/local/lib/python3/dist-packages"),
    ("examples", 20, 3000, "workspace"),
    ("tuning", 90, 900, "opt/tuning"),
    ("profiler", 240, 1500, "opt/profiler"),
    ("entrypoint", 0, 12, "opt/entry"),
]


class Contents:
    """Bytes of a given size, the same for the same seed.

    They compress to about 55 percent of the size, like libraries and scripts.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        words = [self.random.randbytes(self.random.randrange(3, 10)) for _ in range(4096)]
        # Frequent words and rare ones; far more text than a compressor looks back.
        weights = [1 / rank for rank in range(1, len(words) + 1)]
        self.text = b"".join(self.random.choices(words, weights, k=700_000))

    def make(self, size):
        out = io.BytesIO()
        while out.tell() < size:
            if self.random.random() < 0.25:
                out.write(self.random.randbytes(4096))
            else:
                start = self.random.randrange(len(self.text) - 4096)
                out.write(self.text[start:start + 4096])
        return out.getvalue()[:size]


def entry(name, kind=tarfile.REGTYPE, size=0, mode=0o644, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.linkname, info.mtime = kind, size, mode, link, 1_700_000_000
    return info


def write_layer(path, number, scale):
    """Writes one gzip-compressed layer; returns its descriptor's facts."""
    name, megabytes, small, folder = LAYERS[number]
    contents = Contents(number)
    unpacked = hashlib.sha256()

    class Tee(io.RawIOBase):
        def __init__(self, sink):
            self.sink = sink

        def write(self, data):
            unpacked.update(data)
            return self.sink.write(data)

    with open(path, "wb") as raw, \
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
        with tarfile.open(fileobj=Tee(packed), mode="w|", format=tarfile.PAX_FORMAT) as tar:
            made = ""
            for part in folder.split("/"):
                made = f"{made}/{part}".lstrip("/")
                tar.addfile(entry(made, tarfile.DIRTYPE, mode=0o755))
            for i in range(max(1, int(megabytes * scale / 60)) if megabytes else 0):
                size = int(min(60, megabytes * scale) * 1_000_000)
                tar.addfile(entry(f"{folder}/lib{name}{i}.so.1", size=size, mode=0o755),
                    io.BytesIO(contents.make(size)))
                tar.addfile(entry(f"{folder}/lib{name}{i}.so", tarfile.SYMTYPE, link=f"lib{name}{i}.so.1"))
            for i in range(int(small * scale)):
                if i % 50 == 0:
                    tar.addfile(entry(f"{folder}/d{i // 50}", tarfile.DIRTYPE, mode=0o755))
                size = contents.random.choice((120, 900, 3_000, 9_000, 40_000))
                tar.addfile(entry(f"{folder}/d{i // 50}/{name}_{i}.py", size=size), io.BytesIO(contents.make(size)))
            if number > 2:
                tar.addfile(entry(f"usr/share/d{number}/.wh.base_{number * 50}.py"))
    return unpacked.hexdigest()


def blob(folder, data):
    digest = hashlib.sha256(data).hexdigest()
    with open(os.path.join(folder, "blobs/sha256", digest), "wb") as file:
        file.write(data)
    return digest


def file_digest(path):
    with open(path, "rb") as file:
        if hasattr(hashlib, "file_digest"):
            return hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256(file.read()).hexdigest()


def write_layers(folder, scale):
    """All layers, two at a time; a list of (digest, size, diff_id)."""
    blobs = os.path.join(folder, "blobs/sha256")
    os.makedirs(blobs, exist_ok=True)
    paths = [os.path.join(blobs, f"layer{i}") for i in range(len(LAYERS))]
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        diff_ids = list(pool.map(write_layer, paths, range(len(LAYERS)), [scale] * len(LAYERS)))
    out = []
    for path, diff_id in zip(paths, diff_ids):
        digest = file_digest(path)
        os.rename(path, os.path.join(blobs, digest))
        out.append((digest, os.path.getsize(os.path.join(blobs, digest)), diff_id))
    return out


def write_image(folder, layers, extra=b""):
    """Manifest, config and index.json for `layers`; `extra` tells two images of the same layers apart."""
    config = blob(folder, json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/bin", "X=" + extra.decode()]},
        "history": [{"created": "2024-01-01T00:00:00Z", "created_by": "layer"} for _ in layers],
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + diff_id for _, _, diff_id in layers]}}).encode())
    descriptor = lambda kind, digest, size: {"mediaType": "application/vnd.oci.image." + kind,
        "digest": "sha256:" + digest, "size": size}
    size = os.path.getsize(os.path.join(folder, "blobs/sha256", config))
    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", config, size),
        "layers": [descriptor("layer.v1.tar+gzip", digest, bytes_) for digest, bytes_, _ in layers]}).encode()
    name = blob(folder, manifest)
    with open(os.path.join(folder, "index.json"), "w", encoding="ascii") as file:
        json.dump({"schemaVersion": 2, "manifests": [descriptor("manifest.v1+json", name, len(manifest))]}, file)
    with open(os.path.join(folder, "oci-layout"), "w", encoding="ascii") as file:
        json.dump({"imageLayoutVersion": "1.0.0"}, file)


def write_small_layer(folder):
    """One more layer of 2 MB, for a derived image."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        content = Contents(99).make(2_000_000)
        tar.addfile(entry("opt/derived.bin", size=len(content)), io.BytesIO(content))
    packed = gzip.compress(data.getvalue(), 6, mtime=0)
    return blob(folder, packed), len(packed), hashlib.sha256(data.getvalue()).hexdigest()
