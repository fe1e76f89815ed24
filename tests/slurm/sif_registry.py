#!/usr/bin/env python3
"""SIF files and the registry of the box: `make SQUASHFS SIF` writes a SIF file around a squashfs, `push SIF
REGISTRY/NAME:TAG` puts it there as `apptainer push` does, and prints the digest of the manifest; `read FILE
REGISTRY/NAME:TAG` reads it as other programs do: the file, and a line about the artifact."""
import hashlib
import json
import struct
import sys
import urllib.request

DATA = 32768
CONFIG_TYPE = "application/vnd.sylabs.sif.config.v1+json"
LAYER_TYPE = "application/vnd.sylabs.sif.layer.v1.sif"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


def sif_of(squashfs):
    """The file: a header, one descriptor of a primary system partition, the squashfs."""
    head = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + b"02\0" + b"u" * 16
    head += struct.pack("<8q", 0, 0, 47, 48, 4096, 48 * 585, DATA, len(squashfs))
    part = struct.pack("<iBIII7q", 0x4004, 1, 1, 0xF0000001, 0, DATA, len(squashfs), len(squashfs), 0, 0, 0, 0)
    part += b"squashfs".ljust(128, b"\0") + struct.pack("<ii3s", 1, 2, b"02\0").ljust(384, b"\0")
    return (head.ljust(4096, b"\0") + part).ljust(DATA, b"\0") + squashfs


def sha256(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def request(method, url, body=None, kind="application/octet-stream"):
    asked = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": kind})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return answer.headers


def push_blob(repository, content):
    place = request("POST", repository + "/blobs/uploads/", b"")["Location"]
    if place.startswith("/"):
        place = repository.split("/v2/")[0] + place
    request("PUT", place + ("&" if "?" in place else "?") + "digest=" + sha256(content), content)
    return {"digest": sha256(content), "size": len(content)}


def push(sif, name):
    registry, rest = name.split("/", 1)
    path, tag = rest.rsplit(":", 1)
    repository = f"http://{registry}/v2/{path}"
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": CONFIG_TYPE, **push_blob(repository, b"{}")},
        "layers": [{"mediaType": LAYER_TYPE, **push_blob(repository, sif),
                    "annotations": {"org.opencontainers.image.title": "image.sif"}}]}).encode()
    request("PUT", f"{repository}/manifests/{tag}", manifest, MANIFEST_TYPE)
    return sha256(manifest)


def get(url, kind):
    asked = urllib.request.Request(url, headers={"Accept": kind})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return answer.read()


def read(file, name):
    """Each field, by the specification of OCI artifacts and what Apptainer looks at."""
    registry, rest = name.split("/", 1)
    path, tag = rest.rsplit(":", 1)
    repository = f"http://{registry}/v2/{path}"
    text = get(f"{repository}/manifests/{tag}", MANIFEST_TYPE)
    manifest = json.loads(text)
    assert list(manifest)[:4] == ["schemaVersion", "mediaType", "config", "layers"] and manifest["schemaVersion"] == 2
    assert manifest["mediaType"] == MANIFEST_TYPE
    assert manifest["config"] == {"mediaType": CONFIG_TYPE, "size": 2, "digest": sha256(b"{}"), "data": "e30="}
    assert get(f"{repository}/blobs/{sha256(b'{}')}", "*/*") == b"{}"
    layer, = manifest["layers"]
    assert layer["mediaType"] == LAYER_TYPE
    content = get(f"{repository}/blobs/{layer['digest']}", "*/*")
    assert len(content) == layer["size"] and sha256(content) == layer["digest"]
    assert list(layer["annotations"]) == ["org.opencontainers.image.title"]
    assert list(manifest["annotations"]) == sorted(manifest["annotations"])
    with open(file, "wb") as out:
        out.write(content)
    return f"{sha256(text)} {layer['annotations']['org.opencontainers.image.title']} {manifest['annotations']}"


def main():
    command, source, target = sys.argv[1:]
    if command == "read":
        print(read(source, target))
        return
    with open(source, "rb") as file:
        content = file.read()
    if command == "push":
        print(push(content, target))
        return
    with open(target, "wb") as file:
        file.write(sif_of(content))


main()
