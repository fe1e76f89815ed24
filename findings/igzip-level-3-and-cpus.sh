#!/bin/bash
# ISA-L 2.30 (igzip): what isal_deflate_stateless() writes at level 3 depends on the CPU. The same bytes become 3 other
# streams, all of them right, on one with SSE4.2 alone, one with AVX2, and, where this machine has it, one with AVX-512.
# At levels 1 and 2 they are the same. Whoever compares or signs compressed files that several machines make must not
# take level 3.
#
# Needs Debian 12 on amd64, its package sources and gcc. The CPUs are those of qemu-user.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download libisal2=2.30.0-5 libisal-dev=2.30.0-5 qemu-user-static > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
cat > pack.c <<'END'
#include <isa-l/igzip_lib.h>
#include <stdio.h>
#include <stdlib.h>

/* Numbers from a generator, of which some come again. */
int main(int argc, char **argv) {
    static unsigned char in[1 << 20], out[2 << 20], memory[ISAL_DEF_LVL3_LARGE];
    struct isal_zstream stream;
    unsigned state = 1;
    for (unsigned i = 0; i < sizeof in; ++i) {
        state = state * 1103515245 + 12345;
        unsigned back = 16 + (state >> 8) % 4000;
        in[i] = state >> 30 && i > back ? in[i - back / 16 * 16] : (unsigned char)(state >> 16) % 32;
    }
    isal_deflate_stateless_init(&stream);
    stream.level = argc > 1 ? atoi(argv[1]) : 1;
    stream.level_buf = memory, stream.level_buf_size = sizeof memory;
    stream.gzip_flag = IGZIP_ZLIB, stream.end_of_stream = 1, stream.flush = NO_FLUSH;
    stream.next_in = in, stream.avail_in = sizeof in, stream.next_out = out, stream.avail_out = sizeof out;
    if (isal_deflate_stateless(&stream) != COMP_OK) return 1;
    fwrite(out, 1, stream.total_out, stdout);
    return 0;
}
END
libraries=$work/root/usr/lib/x86_64-linux-gnu
gcc -O1 -I"$work/root/usr/include" pack.c -L"$libraries" -lisal -Wl,-rpath,"$libraries" -o pack
sum() { sha256sum | cut -c 1-16; }
# It says which features it leaves out.
on() { root/usr/bin/qemu-x86_64-static -cpu "$1" ./pack "$2" 2> /dev/null | sum; }
for level in 1 2 3; do
  old=$(on Nehalem "$level") new=$(on Haswell "$level")
  echo "level $level: SSE4.2 $old, AVX2 $new, this machine $(./pack "$level" | sum)"
  if ((level == 3)); then [[ $old != "$new" ]]; else [[ $old == "$new" ]]; fi
done
echo "ISA-L 2.30.0: as described"
