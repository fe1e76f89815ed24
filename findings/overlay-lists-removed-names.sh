#!/bin/bash
# A layer may make a directory opaque, and remove one of its names as well: .wh..wh..opq beside .wh.NAME, which says
# the same twice and is valid. podman 4.3.1 makes the marks of an overlay of both. The kernel hides whiteouts only
# where a directory is merged of several layers; of one that is opaque it lists them: the container's listing has NAME,
# which is not there when it is opened, and `find` says so and fails. fuse-overlayfs 1.10 (by which podman can mount,
# too), podman's driver vfs and umoci 0.4.7 show what the specification says.
#
# Needs Debian 12, its package sources, /dev/fuse, and root, since podman mounts an overlay. Seen with Linux 6.18.
set -euo pipefail

work=$(mktemp -d)
trap 'umount -l "$work"/storage-*/overlay/*/merged "$work"/storage-*/overlay 2> /dev/null || true; rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download podman=4.3.1+ds1-8+deb12u1+b3 umoci=0.4.7+ds-3+b7 \
  fuse-overlayfs=1.10-1 libfuse3-3=3.14.0-4 libgpgme11=1.18.0-3+deb12u1 libassuan0=2.5.5-5 \
  libdevmapper1.02.1=2:1.02.185-2 libsubid4=1:4.13+dfsg1-1+deb12u2 libseccomp2=2.5.4-1+deb12u1 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
export PATH=$work/root/usr/bin:$PATH HOME=$work LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu
unset STORAGE_DRIVER CONTAINER_HOST
echo '{"default":[{"type":"insecureAcceptAnything"}]}' > policy.json

# An image: d/old below, and above it a layer that wants nothing of that, says so twice, and has d/new.
python3 - << 'END'
import hashlib, io, json, os, tarfile


def layer(*members):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name in members:
            info = tarfile.TarInfo(name.rstrip("/"))
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            info.mode = 0o755
            tar.addfile(info, io.BytesIO())
    return raw.getvalue()


def blob(kind, data):
    name = hashlib.sha256(data).hexdigest()
    with open("image/blobs/sha256/" + name, "wb") as file:
        file.write(data)
    return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + name, "size": len(data)}


os.makedirs("image/blobs/sha256")
layers = [layer("d/", "d/old"), layer("d/", "d/.wh..wh..opq", "d/.wh.old", "d/new")]
ids = ["sha256:" + hashlib.sha256(one).hexdigest() for one in layers]
config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": ids}}
manifest = {"schemaVersion": 2, "config": blob("config.v1+json", json.dumps(config).encode()),
            "layers": [blob("layer.v1.tar", one) for one in layers]}
entry = blob("manifest.v1+json", json.dumps(manifest).encode())
entry["annotations"] = {"org.opencontainers.image.ref.name": "x"}
for name, text in (("oci-layout", {"imageLayoutVersion": "1.0.0"}),
                   ("index.json", {"schemaVersion": 2, "manifests": [entry]})):
    with open("image/" + name, "w") as file:
        json.dump(text, file)
END

# seen FOLDER: the names of d, and what find says of them.
seen() {
  local problem
  problem=$(find "$1/d" -size 0 2>&1 > /dev/null | sed "s/.*: //" | xargs)
  echo "$(cd "$1/d" && python3 -c 'import os; print(*sorted(os.listdir(".")))'), find: ${problem:-no error}"
}

# by_podman NAME ARGUMENT...
by_podman() {
  local podman=(podman --root "$work/storage-$1" --runroot "$work/run-$1" "${@:2}") id
  id=$("${podman[@]}" pull -q --signature-policy policy.json oci:image:x 2> said | tail -n 1)
  echo "podman with $1: $(seen "$("${podman[@]}" image mount "$id")")"
  "${podman[@]}" image umount "$id" > /dev/null
}

umoci raw unpack --image image:x unpacked > said 2>&1
{
  echo "umoci: $(seen unpacked)"
  by_podman vfs --storage-driver vfs
  by_podman overlay --storage-driver overlay
  by_podman fuse-overlayfs --storage-driver overlay \
    --storage-opt "overlay.mount_program=$work/root/usr/bin/fuse-overlayfs"
} | tee all
[[ $(cat all) == "umoci: new, find: no error
podman with vfs: new, find: no error
podman with overlay: new old, find: No such file or directory
podman with fuse-overlayfs: new, find: no error" ]]
echo "podman 4.3.1, Linux $(uname -r): as described"
