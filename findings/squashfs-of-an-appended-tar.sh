#!/bin/bash
# A tar file that has a path twice, as `tar --append` makes it: the last one counts, for tar and for libarchive.
# mksquashfs 4.5.1 (squashfs-tools) with -tar keeps the first one, says "ignoring" and ends with 0, so that the image
# has the old bytes. tar2sqfs 1.2.0 (squashfs-tools-ng) makes no image at all: "File exists". A directory that comes
# a second time, with another mode, meets the same: the first mode, or no image.
#
# Needs Debian 12 and its package sources.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download squashfs-tools=1:4.5.1-1 squashfs-tools-ng=1.2.0-1 \
  libsquashfs1=1.2.0-1 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
export PATH=$work/root/usr/bin:$PATH LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu

mkdir d
chmod 755 d
echo old > d/file
tar -cf a.tar d
chmod 700 d
echo new > d/file
tar -rf a.tar d
mkdir by-tar
tar -xf a.tar -C by-tar
echo "tar: $(cat by-tar/d/file), mode $(stat -c %a by-tar/d)"

mksquashfs - a.sqsh -tar -quiet -no-progress < a.tar 2> said
made=$?
unsquashfs -quiet -no-progress -d by-mksquashfs a.sqsh > /dev/null
echo "mksquashfs: exit $made, $(cat by-mksquashfs/d/file), mode $(stat -c %a by-mksquashfs/d);" \
  "it said: $(head -n 1 said)"
converted=0
tar2sqfs -q b.sqsh < a.tar 2> said_too || converted=$?
echo "tar2sqfs: exit $converted; it said: $(cat said_too)"

[[ $(cat by-tar/d/file) == new && $(stat -c %a by-tar/d) == 700 ]]
[[ $made == 0 && $(cat by-mksquashfs/d/file) == old && $(stat -c %a by-mksquashfs/d) == 755 ]]
grep -q 'already exists in the tar file, ignoring' said
(( converted )) && grep -q 'd: File exists' said_too
echo "squashfs-tools 4.5.1 and squashfs-tools-ng 1.2.0: as described"
