#!/bin/bash
# GNU tar's --sparse has four forms, and mksquashfs 4.5.1 (squashfs-tools) with -tar reads all of them for a file that
# begins with data. Of one that begins with a hole and ends with data:
# - GNU's own form and the forms 0.0 and 0.1 of PAX make no image: "the tarfile appears to be truncated or corrupted".
#   It is neither.
# - Form 1.0 of PAX, tar's default there, makes an image if the file is the last one. If another follows, there is none:
#   "Tar header checksum does not match!"
# tar2sqfs 1.2.0 (squashfs-tools-ng) makes the right image of all of them.
#
# Needs Debian 12, its package sources and GNU tar.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download squashfs-tools=1:4.5.1-1 squashfs-tools-ng=1.2.0-1 \
  libsquashfs1=1.2.0-1 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
export PATH=$work/root/usr/bin:$PATH LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu

echo data > data-first
truncate -s 1M data-first
truncate -s 1M hole-first
echo data >> hole-first
echo plain > plain

# made PROGRAM...: what it makes of standard input: the files as they were, or what it says.
made() {
  local name
  rm -rf image.sqsh out
  if ! "$@" > /dev/null 2> said || [[ ! -e image.sqsh ]]; then head -n 1 said; return; fi
  unsquashfs -quiet -no-progress -d out image.sqsh > /dev/null
  for name in out/*; do cmp -s "$name" "${name#out/}" || { echo "another ${name#out/}"; return; }; done
  echo "right"
}

for files in "data-first plain" "hole-first" "hole-first plain"; do
  for form in gnu 0.0 0.1 1.0; do
    options=(--format=pax "--sparse-version=$form")
    [[ $form != gnu ]] || options=(--format=gnu)
    # shellcheck disable=SC2086
    tar --sparse "${options[@]}" -cf a.tar $files
    echo "$files, $form: mksquashfs: $(made mksquashfs - image.sqsh -tar -quiet -no-progress < a.tar);" \
      "tar2sqfs: $(made tar2sqfs -q image.sqsh < a.tar)" | tee -a all
  done
done

cut='FATAL ERROR: Failed to read tar file hole-first, the tarfile appears to be truncated or corrupted'
[[ $(grep -c 'tar2sqfs: right$' all) == 12 && $(grep -c 'mksquashfs: right;' all) == 5 ]]
for form in gnu 0.0 0.1; do
  grep -qx "hole-first, $form: mksquashfs: $cut; tar2sqfs: right" all
  grep -qx "hole-first plain, $form: mksquashfs: $cut; tar2sqfs: right" all
done
grep -qx "hole-first plain, 1.0: mksquashfs: Tar header checksum does not match!; tar2sqfs: right" all
echo "squashfs-tools 4.5.1 and squashfs-tools-ng 1.2.0: as described"
