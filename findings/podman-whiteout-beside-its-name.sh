#!/bin/bash
# A layer may remove a name of the layers below, and have that name itself: .wh.NAME beside NAME. The specification of
# layers says that whiteouts apply to lower layers only, so NAME is there, and has nothing of what was below. umoci
# 0.4.7 makes that of it. podman 4.3.1 (containers/storage) makes three other things of it, by storage driver:
# - overlay, a file: the image cannot be pulled, "processing tar file(file exists)".
# - overlay, a directory: what the lower layer had in it is there again. No message, exit code 0.
# - vfs, a file with its whiteout behind it: the new file is gone. No message, exit code 0.
#
# Needs Debian 12, its package sources, and root, since podman mounts an overlay.
set -euo pipefail

work=$(mktemp -d)
trap 'umount -l "$work"/storage-*/overlay 2> /dev/null || true; rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download podman=4.3.1+ds1-8+deb12u1+b3 umoci=0.4.7+ds-3+b7 \
  libgpgme11=1.18.0-3+deb12u1 libassuan0=2.5.5-5 libdevmapper1.02.1=2:1.02.185-2 libsubid4=1:4.13+dfsg1-1+deb12u2 \
  libseccomp2=2.5.4-1+deb12u1 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
export PATH=$work/root/usr/bin:$PATH HOME=$work LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu
unset STORAGE_DRIVER CONTAINER_HOST
echo '{"default":[{"type":"insecureAcceptAnything"}]}' > policy.json

# Two images: a file, and a directory, that the second layer removes and has anew.
python3 - << 'END'
import hashlib, io, json, os, tarfile


def layer(*members):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            info.mode, info.size = 0o755, len(data or b"")
            tar.addfile(info, io.BytesIO(data or b""))
    return raw.getvalue()


def image(folder, layers):
    os.makedirs(folder + "/blobs/sha256")

    def blob(kind, data):
        name = hashlib.sha256(data).hexdigest()
        with open(f"{folder}/blobs/sha256/{name}", "wb") as file:
            file.write(data)
        return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + name, "size": len(data)}

    ids = ["sha256:" + hashlib.sha256(one).hexdigest() for one in layers]
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": ids}}
    manifest = {"schemaVersion": 2, "config": blob("config.v1+json", json.dumps(config).encode()),
        "layers": [blob("layer.v1.tar", one) for one in layers]}
    entry = blob("manifest.v1+json", json.dumps(manifest).encode())
    entry["annotations"] = {"org.opencontainers.image.ref.name": "x"}
    for name, text in (("oci-layout", {"imageLayoutVersion": "1.0.0"}),
            ("index.json", {"schemaVersion": 2, "manifests": [entry]})):
        with open(f"{folder}/{name}", "w") as file:
            json.dump(text, file)


image("file", [layer(("f", b"old")), layer(("f", b"new"), (".wh.f", b""))])
image("directory", [layer(("d", None), ("d/old", b"")), layer((".wh.d", b""), ("d", None), ("d/new", b""))])
END

# seen FOLDER: what is there, and what is in the file.
seen() {
  local names
  names=$(cd "$1"; { find . -mindepth 1 | sort; cat f 2> /dev/null || true; } | xargs)
  echo "${names:-nothing}"
}

# by_podman DRIVER IMAGE
by_podman() {
  local podman=(podman --root "$work/storage-$1" --runroot "$work/run-$1" --storage-driver "$1") id
  if ! id=$("${podman[@]}" pull -q --signature-policy policy.json "oci:$2:x" 2> said | tail -n 1) || [[ -z $id ]]; then
    grep -o 'processing tar file([^)]*)' said
    return
  fi
  seen "$("${podman[@]}" image mount "$id")"
  "${podman[@]}" image umount "$id" > /dev/null
}

for image in file directory; do
  umoci raw unpack --image "$image:x" "umoci-$image" > said 2>&1
  echo "$image: umoci: $(seen "umoci-$image"); podman with overlay: $(by_podman overlay $image);" \
    "with vfs: $(by_podman vfs $image)" | tee -a all
done
[[ $(cat all) == "file: umoci: ./f new; podman with overlay: processing tar file(file exists); with vfs: nothing
directory: umoci: ./d ./d/new; podman with overlay: ./d ./d/new ./d/old; with vfs: ./d ./d/new" ]]
echo "podman 4.3.1: as described"
