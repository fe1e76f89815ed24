#!/bin/bash
# buildah 1.28.2 (containers/storage, as in podman) makes its user namespace with setgroups "allow", also where it has
# no more than one group to map. Below a user namespace with "deny", which each unprivileged one with one group has
# (user_namespaces(7)), the kernel forbids that, and buildah ends with
#   opening "allow" to /proc/N/setgroups: write /proc/N/setgroups: operation not permitted
# As root of a namespace that something else has made (unshare -Ur) it makes none, and runs.
#
# Needs Debian 12, its package sources and user namespaces for users.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download buildah=1.28.2+ds1-3+deb12u1+b3 \
  golang-github-containers-common=0.50.1+ds1-4 golang-github-containers-image=5.23.1-4 \
  libgpgme11=1.18.0-3+deb12u1 libassuan0=2.5.5-5 libdevmapper1.02.1=2:1.02.185-2 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
chmod -R go+rX "$work"
install -d -m 777 home
# As an ordinary user, for whom there are no more IDs.
user=()
(( EUID )) || user=(setpriv --reuid 54321 --regid 54321 --clear-groups)
buildah() {
  "${user[@]}" env -i PATH=/usr/bin:/bin HOME="$work/home" LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu" \
    "$@" "$work/root/usr/bin/buildah" --storage-driver vfs --root "$work/home/s" --runroot "$work/home/r" \
    --registries-conf "$work/root/etc/containers/registries.conf" info > said 2>&1
}

in_namespace=works as_its_root=works
buildah unshare --user --map-user=1000 --map-group=1000 ||
  in_namespace=$(grep -o 'opening \\"allow\\"' said | head -n 1)
buildah unshare --user --map-root-user || { as_its_root='does not work'; tail -n 3 said; }
echo "in a namespace with one group: $in_namespace; as root of one: $as_its_root"
[[ $in_namespace == 'opening \"allow\"' && $as_its_root == works ]]
echo "buildah 1.28.2: as described"
