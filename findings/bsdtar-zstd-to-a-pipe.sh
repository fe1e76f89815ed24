#!/bin/bash
# bsdtar 3.6.2 (libarchive) fills what it writes to a pipe with zeros up to 10240 bytes, as tar programs do for tapes,
# behind the compression. It reads such an archive itself if it was packed with gzip, bzip2, xz, lzma, lzip or lz4. One
# that was packed with --zstd it cannot open: "Zstd decompression failed: Unknown frame descriptor". `bsdtar -c --zstd |
# bsdtar -t` ends with 1, and so do zstd and GNU tar. The same archive is readable if bsdtar writes it to a file.
#
# Needs Debian 12, its package sources, zstd and GNU tar.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download libarchive-tools=3.6.2-1+deb12u5 libarchive13=3.6.2-1+deb12u5 \
  liblz4-1=1.9.4-1 libxml2=2.9.14+dfsg-1.3~deb12u6 libnettle8=3.8.1-2 libicu72=72.1-3+deb12u1 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
export PATH=$work/root/usr/bin:$PATH LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu

# listed PROGRAM WORDS...: what it makes of standard input.
listed() { "$@" 2> said || echo "exit $?: $(head -n 1 said)"; }

echo hello > file
for packing in gzip bzip2 xz lzma lzip lz4 zstd; do
  piped=$(bsdtar -c "--$packing" -f - file | listed bsdtar -tf -)
  bsdtar -c "--$packing" -f written file
  echo "--$packing to a pipe: $piped; to a file: $(listed bsdtar -tf written)"
  [[ $(bsdtar -tf written) == file ]]
  if [[ $packing == zstd ]]; then
    [[ $piped == 'exit 1: bsdtar: Error opening archive: Zstd decompression failed: Unknown frame descriptor' ]]
  else
    [[ $piped == file ]]
  fi
done
bsdtar -c --zstd -f - file > piped
size=$(stat -c %s piped)
(( size == 10240 )) && [[ -z $(tail -c 1000 piped | tr -d '\0') ]]
if zstd -q -t piped 2> said; then false; fi
echo "zstd: $(head -n 1 said)"
if tar --zstd -tf piped > /dev/null 2>&1; then false; fi
echo "bsdtar 3.6.2: as described"
