#!/bin/bash
# ch-image 0.31 (Charliecloud) and valid OCI images:
# - A layer that brings a file anew changes all hard links that an earlier layer gave it: the file is opened where it
#   lies and written over, so that the other names have the new bytes, too. umoci 0.4.7, as the specification of layers
#   wants it, takes the name away first, and the other names keep what they had. No message, exit code 0.
# - A config without "history", which the specification calls optional: the image comes, and then ch-image ends with 1,
#   "invalid config: missing history".
#
# Needs Debian 12, its package sources, and openssl; the registry runs at a free port of 127.0.0.1.
set -euo pipefail

work=$(mktemp -d)
registry=
trap '[[ -z $registry ]] || kill "$registry"; rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download charliecloud-builders=0.31-1 charliecloud-common=0.31-1 \
  charliecloud-runtime=0.31-1 \
  python3-lark=1.1.5-1 python3-requests=2.28.1+dfsg-1 python3-urllib3=1.26.12-1+deb12u4 \
  python3-chardet=5.1.0+dfsg-2 python3-charset-normalizer=3.0.1-2 python3-idna=3.3-1+deb12u1 \
  python3-certifi=2022.9.24-1 python3-six=1.16.0-4 docker-registry=2.8.2+ds1-1 umoci=0.4.7+ds-3+b7 \
  skopeo=1.9.3+ds1-1+b10 libgpgme11=1.18.0-3+deb12u1 libassuan0=2.5.5-5 libdevmapper1.02.1=2:1.02.185-2 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
export PATH=$work/root/usr/bin:/usr/bin:/bin HOME=$work USER=user PYTHONPATH=$work/root/usr/lib/python3/dist-packages \
  LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu REQUESTS_CA_BUNDLE=$work/cert.pem

# Two layers: a file of two names, then the first of them anew. Two images of them, with a history and without one.
python3 - << 'END'
import gzip, hashlib, io, json, os, tarfile


def layer(*members):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, data, link in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            if link:
                info.type, info.linkname = tarfile.LNKTYPE, link
            tar.addfile(info, io.BytesIO(data))
    return raw.getvalue()


layers = [layer(("first", b"old", ""), ("second", b"", "first")), layer(("first", b"new", ""))]
manifests = []
os.makedirs("image/blobs/sha256")


def blob(kind, data):
    digest = hashlib.sha256(data).hexdigest()
    with open("image/blobs/sha256/" + digest, "wb") as file:
        file.write(data)
    return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(data)}


for tag in ("with", "without"):
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [
        "sha256:" + hashlib.sha256(one).hexdigest() for one in layers]}}
    if tag == "with":
        config["history"] = [{"created_by": "one"}, {"created_by": "two"}]
    manifest = {"schemaVersion": 2, "config": blob("config.v1+json", json.dumps(config).encode()), "layers": [
        blob("layer.v1.tar+gzip", gzip.compress(one, mtime=0)) for one in layers]}
    manifests.append(blob("manifest.v1+json", json.dumps(manifest).encode()) | {
        "annotations": {"org.opencontainers.image.ref.name": tag}})
with open("image/index.json", "w") as file:
    json.dump({"schemaVersion": 2, "manifests": manifests}, file)
with open("image/oci-layout", "w") as file:
    file.write('{"imageLayoutVersion":"1.0.0"}')
END

openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost \
  -addext subjectAltName=IP:127.0.0.1 2> /dev/null
printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s/store}}\nhttp: {addr: "127.0.0.1:0", %s}\n' "$work" \
  "tls: {certificate: $work/cert.pem, key: $work/key.pem}" > registry.yml
docker-registry serve registry.yml > registry.log 2>&1 &
registry=$!
until at=$(grep -om1 '127.0.0.1:[1-9][0-9]*' registry.log 2> /dev/null); do sleep 0.1; done

# pulled TAG: the exit code of ch-image, and its last line.
pulled() {
  local code=0
  skopeo --insecure-policy copy -q --dest-tls-verify=false "oci:image:$1" "docker://$at/a:$1"
  ch-image --no-cache -s storage pull "$at/a:$1" > said 2>&1 || code=$?
  echo "exit $code, $(tail -n 1 said)"
}

with=$(pulled with)
tree=$(echo storage/img/*with)
umoci unpack --rootless --image image:with by-umoci > /dev/null 2>&1
by_ch_image="$(cat "$tree/first") $(cat "$tree/second")"
by_umoci="$(cat by-umoci/rootfs/first) $(cat by-umoci/rootfs/second)"
without=$(pulled without)
echo "ch-image: $with"
echo "first and second by umoci: $by_umoci; by ch-image: $by_ch_image"
echo "without a history: $without"
[[ $with == 'exit 0, done' && $by_umoci == 'new old' && $by_ch_image == 'new new' ]]
[[ $without == 'exit 1, error: invalid config: missing history' ]]
echo "ch-image 0.31: as described"
