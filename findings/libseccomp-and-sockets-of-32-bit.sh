#!/bin/bash
# libseccomp 2.5.4: a rule for socket(2) with a family, in a filter that has x86 among its architectures, becomes two
# rules there. That for the direct call has the family. That for socketcall(2), by which C libraries for i386 make
# sockets, has the number of the operation in the family's place: it holds for sockets of every family. So a filter that
# is to refuse AF_ALG alone leaves 32-bit programs without any socket, and one that allows all families but one lets
# them open that one, too. seccomp_rule_add(3) says that it may differ between architectures, and not how.
#
# Needs Debian 12 of amd64 and its package sources.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -q -o APT::Sandbox::User=root download python3-seccomp=2.5.4-1+deb12u1 libseccomp2=2.5.4-1+deb12u1 > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
export PYTHONPATH=$work/root/usr/lib/python3/dist-packages LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu

python3 - > filter << 'PYTHON'
import errno, seccomp, sys
rules = seccomp.SyscallFilter(seccomp.ALLOW)
rules.add_arch(seccomp.Arch.X86)
rules.add_rule(seccomp.ERRNO(errno.EAFNOSUPPORT), "socket", seccomp.Arg(0, seccomp.EQ, 38))
rules.export_pfc(sys.stdout)
PYTHON
cat filter

# The part of an architecture, without its comments: of(WORD).
of() { sed -n "/^# filter for arch $1 /,/^# filter for arch\|^# invalid/p" filter | grep -v '^#'; }
of x86_64 | grep -A 4 'syscall "socket"' > native
# Without the family there is one comparison, with SYS_SOCKET.
of x86 | grep -A 4 '"socketcall"' > by_socketcall
of x86 | grep -A 4 '"socket"' > direct
grep -q '== 38' native
grep -q '== 38' direct
grep -q '== 1' by_socketcall
! sed -n '1,/ERRNO/p' by_socketcall | grep '== 38'
echo "libseccomp 2.5.4: as described"
