#!/bin/bash
# Makes an image with the packages of all programs of the table, or of those marked quick, and prints its path:
# image.sh [--quick]. It stays in the tests' cache until the packages change or a week is over.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${BERTH_TEST_CACHE:-/var/cache/berth-test}
base=$("$here/../../scripts/make-test-image" --base)
mapfile -t packages < <("$here/table.py" packages "$@")
image=$cache/programs-$(cat "$0" <(printf '%s\n' "${packages[@]}") <(stat -c %Y "$base") | sha256sum | cut -c1-16).sqsh
[[ ! -e $image ]] || { echo "$image"; exit; }

work=$(mktemp -d "$cache/programs.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
mkdir "$root"
tar -xf "$base" -C "$root"
# The same mirrors as this machine's.
cp -a /etc/apt/. "$root/etc/apt/"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
# Nothing of it matters if the machine fails.
echo force-unsafe-io > "$root/etc/dpkg/dpkg.cfg.d/berth-test"
in_root() { "$here/../packages/inside" "$root" 0 "$@"; }
{ in_root apt-get update -qq && in_root apt-get install -qq -y --no-install-recommends "${packages[@]}"; } \
  > "$work/log" 2>&1 < /dev/null || { tail -n 20 "$work/log" >&2; exit 1; }
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
mksquashfs "$root" "$work/image" -comp zstd -Xcompression-level 1 -no-xattrs -quiet -no-progress > /dev/null
chmod 644 "$work/image"
mv "$work/image" "$image"
echo "$image"
