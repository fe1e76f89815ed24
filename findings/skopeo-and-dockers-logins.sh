#!/bin/bash
# skopeo 1.9.3 (containers/image, as in podman) reads ~/.docker/config.json, and not as docker does:
# - "credsStore", where `docker login` keeps logins on most desktops, is passed over without a word: the registry
#   answers "unauthorized". The same program under "credHelpers" is asked, and the login counts.
# - The file is read before the registry has asked for anything. So an empty file, or a "credHelpers" whose program is
#   not installed here (a home that came from a laptop), stops pulls from a registry that wants no login.
#
# Needs Debian 12 and its package sources; the registry runs at a free port of 127.0.0.1.
set -euo pipefail

work=$(mktemp -d)
registry=
trap '[[ -z $registry ]] || kill "$registry"; rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download skopeo=1.9.3+ds1-1+b10 docker-registry=2.8.2+ds1-1 \
  libgpgme11=1.18.0-3+deb12u1 libassuan0=2.5.5-5 \
  libdevmapper1.02.1=2:1.02.185-2 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
export PATH=$work/bin:$work/root/usr/bin:/usr/bin:/bin HOME=$work/home \
  LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu
unset XDG_RUNTIME_DIR REGISTRY_AUTH_FILE
mkdir -p bin home/.docker

# The login u, p: the line is htpasswd's, of bcrypt.
# shellcheck disable=SC2016
echo 'u:$2b$12$uyip/BuhyOLpq1OYxPjNEOJ4wRT9Oc3CACqSnBcmMH/0X3Y01pWgG' > logins
cat > bin/docker-credential-fake << 'END'
#!/bin/sh
read -r host
echo "{\"ServerURL\":\"$host\",\"Username\":\"u\",\"Secret\":\"p\"}"
END
chmod +x bin/docker-credential-fake

# serve WHAT IT SAYS OF LOGINS: $at is the registry's address.
serve() {
  [[ -z $registry ]] || { kill "$registry"; wait "$registry" || true; }
  printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s/store}}\nhttp: {addr: "127.0.0.1:0"}\n%s\n' \
    "$work" "$1" > registry.yml
  docker-registry serve registry.yml > registry.log 2>&1 &
  registry=$!
  until at=$(grep -om1 '127.0.0.1:[1-9][0-9]*' registry.log 2> /dev/null); do sleep 0.1; done
}

# tries FILE: what skopeo makes of an image of the registry, with this ~/.docker/config.json.
tries() {
  printf '%s' "${1//AT/$at}" > home/.docker/config.json
  if skopeo inspect --tls-verify=false "docker://$at/a:1" > said 2>&1; then echo image
  elif grep -q unauthorized said; then echo unauthorized
  else echo stopped; fi
}

# An image of no layers.
mkdir -p image/blobs/sha256
blob() { local sum; sum=$(printf '%s' "$1" | sha256sum | cut -d ' ' -f 1); printf '%s' "$1" > "image/blobs/sha256/$sum"
  echo "\"digest\":\"sha256:$sum\",\"size\":${#1}"; }
type=application/vnd.oci.image
config=$(blob '{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}')
manifest=$(blob "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"$type.config.v1+json\",$config},\"layers\":[]}")
echo '{"imageLayoutVersion":"1.0.0"}' > image/oci-layout
echo "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"$type.manifest.v1+json\",$manifest}]}" > image/index.json

serve ''
skopeo --insecure-policy copy -q --dest-tls-verify=false oci:image "docker://$at/a:1"
public=$(tries '{}')
empty=$(tries '')
absent=$(tries '{"credHelpers":{"AT":"is-not-installed"}}')
serve "auth: {htpasswd: {realm: r, path: $work/logins}}"
none=$(tries '{}')
helper=$(tries '{"credHelpers":{"AT":"fake"}}')
store=$(tries '{"credsStore":"fake"}')

echo "public registry: {}: $public; empty file: $empty; credHelpers of an absent program: $absent"
echo "private registry: {}: $none; credHelpers: $helper; credsStore: $store"
[[ $public == image && $empty == stopped && $absent == stopped ]]
[[ $none == unauthorized && $helper == image && $store == unauthorized ]]
echo "skopeo 1.9.3: as described"
