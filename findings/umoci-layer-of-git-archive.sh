#!/bin/bash
# `git archive` begins its tar file with a global header of PAX, whose comment is the commit. As the layer of an image
# registries take it, and podman and GNU tar read it. umoci 0.4.7 unpacks none of it: "unknown typeflag '\x67'". The
# same with GNU tar's --sparse in its own format, typeflag 'S', while the sparse forms of PAX are unpacked.
#
# Needs Debian 12, its package sources, git and GNU tar.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download umoci=0.4.7+ds-3+b7 > /dev/null
dpkg-deb -x ./*.deb root
export PATH=$work/root/usr/bin:$PATH HOME=$work GIT_CONFIG_NOSYSTEM=1

git init -q project
echo hello > project/file
git -C project add file
git -C project -c user.name=u -c user.email=u@localhost commit -q -m first
git -C project archive --format=tar HEAD > archive.tar
truncate -s 1M sparse
echo end >> sparse
tar --format=gnu --sparse -cf sparse-gnu.tar sparse
tar --format=pax --sparse -cf sparse-pax.tar sparse
git -C project archive --format=tar 'HEAD^{tree}' > tree.tar

# unpacked LAYER: what umoci makes of an image with this layer.
unpacked() {
  rm -rf image out
  mkdir -p image/blobs/sha256
  python3 - "$1" << 'END'
import hashlib, json, sys


def blob(kind, data):
    name = hashlib.sha256(data).hexdigest()
    with open("image/blobs/sha256/" + name, "wb") as file:
        file.write(data)
    return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + name, "size": len(data)}


with open(sys.argv[1], "rb") as file:
    layer = blob("layer.v1.tar", file.read())
config = {"architecture": "amd64", "os": "linux", "config": {},
    "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
manifest = {"schemaVersion": 2, "config": blob("config.v1+json", json.dumps(config).encode()), "layers": [layer]}
entry = blob("manifest.v1+json", json.dumps(manifest).encode())
entry["annotations"] = {"org.opencontainers.image.ref.name": "x"}
for name, text in (("oci-layout", {"imageLayoutVersion": "1.0.0"}),
        ("index.json", {"schemaVersion": 2, "manifests": [entry]})):
    with open("image/" + name, "w") as file:
        json.dump(text, file)
END
  if umoci raw unpack --rootless --image image:x out > said 2>&1; then (cd out && echo *)
  else grep -o "unknown typeflag.*" said; fi
}

for layer in archive tree sparse-gnu sparse-pax; do
  echo "$layer: GNU tar: $(tar -tf $layer.tar | xargs); umoci: $(unpacked $layer.tar)" | tee -a all
done
[[ $(cat all) == "archive: GNU tar: file; umoci: unknown typeflag '\\x67'
tree: GNU tar: file; umoci: file
sparse-gnu: GNU tar: sparse; umoci: unknown typeflag '\\x53'
sparse-pax: GNU tar: sparse; umoci: sparse" ]]
echo "umoci 0.4.7: as described"
