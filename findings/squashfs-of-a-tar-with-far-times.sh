#!/bin/bash
# The times of squashfs have 32 bits, those of a tar file's extended headers any number of seconds.
# - A file from before 1970: mksquashfs 4.5.1 (squashfs-tools) with -tar makes no image, "Failed to parse pax header",
#   for the sake of one file. tar2sqfs 1.2.0 (squashfs-tools-ng) writes 1970.
# - A file from after 2106: mksquashfs wraps it round without a word, so that 2^32 + 10 s is ten seconds after 1970;
#   tar2sqfs writes the last second that there is.
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

# made COMMAND...: "exit CODE, mtime SECONDS" of the file in the image that the command makes of standard input.
made() {
  local code=0
  rm -rf image.sqsh out
  "$@" 2> said || code=$?
  if (( code )); then echo "exit $code, $(head -n 1 said)"; return; fi
  unsquashfs -quiet -no-progress -d out image.sqsh > /dev/null
  echo "exit 0, mtime $(stat -c %Y out/file)"
}

echo x > file
for time in -5 4294967306; do
  tar --format=pax --mtime="@$time" -cf "$time.tar" file
  by_mksquashfs[time < 0 ? 0 : 1]=$(made mksquashfs - image.sqsh -tar -quiet -no-progress < "$time.tar")
  by_tar2sqfs[time < 0 ? 0 : 1]=$(made tar2sqfs -q image.sqsh < "$time.tar")
done
for of in 0 1; do echo "mksquashfs: ${by_mksquashfs[of]}; tar2sqfs: ${by_tar2sqfs[of]}"; done

[[ ${by_mksquashfs[0]} == 'exit 1, Failed to parse pax header' && ${by_tar2sqfs[0]} == 'exit 0, mtime 0' ]]
[[ ${by_mksquashfs[1]} == 'exit 0, mtime 10' && ${by_tar2sqfs[1]} == 'exit 0, mtime 4294967295' ]]
echo "squashfs-tools 4.5.1 and squashfs-tools-ng 1.2.0: as described"
