"""The images that the pages name, in the test's registry: image.py REGISTRY NAME:TAG[=UNDER]... Each is debian:UNDER
(12) with programs of the names that the commands call. What is no part of Debian is a stand-in, a script that does a
little of it."""

import gzip
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "registry"))
from oci_layout import MEDIA, digest, directory, file, symlink, tar  # noqa: E402

STAND_INS = Path(__file__).parent / "stand-ins"
# Real ones, with the libraries of this machine, since the image may be of another release.
PROGRAMS = {"/usr/bin/top": "/usr/bin/top", "/usr/bin/rsync": "/usr/bin/rsync",
    "/usr/lib/openssh/sftp-server": "/usr/lib/openssh/sftp-server"}


def libraries(program):
    lines = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines()
    words = [word for line in lines for word in line.split() if word.startswith("/")]
    return sorted(set(words))


def layer():
    entries = [directory(name) for name in ("usr", "usr/bin", "usr/local", "usr/local/bin", "usr/lib/openssh", "srv",
        "opt/host", "opt/host/lib", "opt/host/bin")]
    taken = {}
    for target, program in PROGRAMS.items():
        for library in libraries(program):
            taken[Path(library).name] = library
        name = Path(program).name
        entries.append(file(f"opt/host/bin/{name}", Path(program).read_bytes(), 0o755))
        loader = next(name for name in taken if name.startswith("ld-linux"))
        script = f'#!/bin/sh\nexec /opt/host/lib/{loader} --library-path /opt/host/lib /opt/host/bin/{name} "$@"\n'
        entries.append(file(target[1:], script, 0o755))
    entries += [file(f"opt/host/lib/{name}", Path(path).read_bytes(), 0o755) for name, path in sorted(taken.items())]
    entries += [file(f"usr/local/bin/{path.name}", path.read_text(), 0o755) for path in sorted(STAND_INS.iterdir())]
    entries.append(symlink("srv/serve", "/usr/local/bin/serve"))
    return tar(entries)


class Registry:
    def __init__(self, address):
        self.address = address

    def ask(self, method, path, data=None, **headers):
        url = path if path.startswith("http") else f"http://{self.address}/v2/{path}"
        request = urllib.request.Request(url, data=data, method=method,
            headers={name.replace("_", "-"): value for name, value in headers.items()})
        return urllib.request.urlopen(request)

    def manifest(self, name, tag):
        return json.load(self.ask("GET", f"{name}/manifests/{tag}", Accept=MEDIA + "manifest.v1+json"))

    def blob(self, name, data):
        place = self.ask("POST", f"{name}/blobs/uploads/", b"").headers["Location"]
        place += ("&" if "?" in place else "?") + "digest=" + digest(data)
        self.ask("PUT", place, data, Content_Type="application/octet-stream")
        return {"digest": digest(data), "size": len(data)}

    def take_over(self, name, blob):
        """A blob of debian's; it is not copied."""
        self.ask("POST", f"{name}/blobs/uploads/?mount={blob['digest']}&from=debian", b"")

    def publish(self, name, tag, content, under):
        base = self.manifest("debian", under)
        config = json.load(self.ask("GET", f"debian/blobs/{base['config']['digest']}"))
        config["rootfs"]["diff_ids"].append(digest(content))
        # podman adds to the history, and counts its layers.
        config["history"] = [{"created_by": "tests"} for _ in config["rootfs"]["diff_ids"]]
        # As NVIDIA's images have them.
        config["config"]["Env"] += ["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"]
        for blob in base["layers"]:
            self.take_over(name, blob)
        packed = self.blob(name, gzip.compress(content, 1, mtime=0))
        base["layers"].append({"mediaType": MEDIA + "layer.v1.tar+gzip", **packed})
        base["config"] = {"mediaType": MEDIA + "config.v1+json", **self.blob(name, json.dumps(config).encode())}
        self.ask("PUT", f"{name}/manifests/{tag}", json.dumps(base).encode(), Content_Type=MEDIA + "manifest.v1+json")


if __name__ == "__main__":
    registry, content = Registry(sys.argv[1]), layer()
    for image in sys.argv[2:]:
        image, _, under = image.partition("=")
        registry.publish(*image.split(":"), content, under or "12")
