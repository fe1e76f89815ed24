"""Writes OCI image layouts from described layers, the same bytes for the same input."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

MEDIA = "application/vnd.oci.image."
LAYER = MEDIA + "layer.v1.tar"


def directory(name, mode=0o755):
    return _entry(name, tarfile.DIRTYPE, mode)


def file(name, content, mode=0o644):
    data = content.encode() if isinstance(content, str) else content
    return _entry(name, tarfile.REGTYPE, mode, size=len(data)), data


def symlink(name, target):
    return _entry(name, tarfile.SYMTYPE, 0o777, linkname=target)


def hardlink(name, target):
    return _entry(name, tarfile.LNKTYPE, 0o644, linkname=target)


def whiteout(name):
    folder, _, base = name.rpartition("/")
    return file(f"{folder}/.wh.{base}", "")


def opaque(folder):
    return file(f"{folder}/.wh..wh..opq", "")


def _entry(name, kind, mode, **fields):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = mode
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def tar(entries):
    """A tar of entries, each a TarInfo or a pair of it and its bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            info, data = entry if isinstance(entry, tuple) else (entry, None)
            archive.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


COMPRESSORS = {
    "": lambda data: data,
    "+gzip": lambda data: gzip.compress(data, 6, mtime=0),
    "+zstd": lambda data: subprocess.run(["zstd", "-q", "-3", "-c"],
        input=data, stdout=subprocess.PIPE, check=True).stdout,
}


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layout:
    """One layout folder; the last manifest or index given to `publish` is what it names."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.blobs = self.folder / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def blob(self, data, media_type):
        name = digest(data)
        (self.blobs / name.partition(":")[2]).write_bytes(data)
        return {"mediaType": media_type, "digest": name, "size": len(data)}

    def json(self, value, media_type):
        return self.blob(json.dumps(value, separators=(",", ":"), sort_keys=True).encode(), media_type)

    def image(self, tars, config, compression="+gzip", architecture="amd64"):
        """Adds the image of these layer tars; returns its manifest's descriptor."""
        layers = [self.blob(COMPRESSORS[compression](data), LAYER + compression) for data in tars]
        described = {
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [digest(data) for data in tars]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MEDIA + "manifest.v1+json",
            "config": self.json(described, MEDIA + "config.v1+json"),
            "layers": layers,
        }
        return self.json(manifest, MEDIA + "manifest.v1+json")

    def index(self, images):
        """Adds an index over {architecture: manifest descriptor}; returns its descriptor."""
        entries = [dict(image, platform={"architecture": name, "os": "linux"}) for name, image in images.items()]
        return self.json({"schemaVersion": 2, "mediaType": MEDIA + "index.v1+json", "manifests": entries},
            MEDIA + "index.v1+json")

    def publish(self, descriptor):
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [descriptor]}))
