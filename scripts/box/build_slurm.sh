#!/bin/bash
# Builds a release of Slurm for the box and prints its prefix: build_slurm.sh TAG SOURCE. SOURCE is a checkout or git
# directory of github.com/SchedMD/slurm, TAG one of its tags (slurm-24-11-5-1). What was built once stays.
set -euo pipefail
tag=$1 source=$2
prefix=${BERTH_SLURM_DIR:-/var/cache/berth-slurm}/$tag
pmix=/usr/lib/$(gcc -print-multiarch)/pmix2

die() {
  echo "build-slurm: $*" >&2
  exit 1
}

extract() {
  git --git-dir="$source" cat-file -e "$tag" 2> /dev/null || source=$source/.git
  git --git-dir="$source" archive "$tag" > "$work/source.tar" ||
    die "$2 has no tag $tag; name a checkout or git directory of Slurm's source and one of its tags"
  mkdir "$work/source"
  tar -C "$work/source" -xf "$work/source.tar"
}

# Only what a cluster runs: no documentation, no static libraries, nothing that needs a library which may be there.
# namespace.yaml is read with libyaml, and wants json-c as well (25.11 and newer).
compile() {
  cd "$work/source"
  ./configure -q --prefix="$prefix" --sysconfdir=/etc/slurm --disable-static --disable-debug --enable-multiple-slurmd \
    --with-munge --with-pmix="$pmix" --with-yaml --with-json --without-libcurl --without-lua --without-readline \
    --without-jwt CFLAGS=-O1 || return 1
  make -s -C src -j"${JOBS:-$(nproc)}" || return 1
  make -s -C src install DESTDIR="$work/root" || return 1
  make -s install-pkgincludeHEADERS DESTDIR="$work/root"
}

if [[ -x $prefix/sbin/slurmd ]]; then echo "$prefix"; exit; fi
"$(dirname "$0")/../install-deps" --platforms >&2
work=$(mktemp -d /var/tmp/build-slurm.XXXXXX)
trap 'rm -rf "$work"' EXIT
extract "$@"
(compile) > "$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "building $tag failed; the end of its log is above"; }
mkdir -p "${prefix%/*}"
mv -T "$work/root$prefix" "$prefix"
echo "$prefix"
