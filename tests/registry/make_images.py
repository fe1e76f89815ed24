"""Builds the test images' OCI layouts from a Debian root as a tar: make_images.py BASE.tar OUT [MPI.tar NESTED.tar];
without these the main one alone."""

import sys
import tarfile
from pathlib import Path

from oci_layout import Layout, directory, file, hardlink, opaque, symlink, tar, whiteout
from program import program

CONFIG = {
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
        "IMAGE_VAR=from-image"],
    "WorkingDir": "/srv",
    "Cmd": ["bash"],
}

# Enough of Debian to run a shell and look around.
TINY = """
bin lib lib64 sbin etc/os-release etc/passwd etc/group usr/lib/os-release
usr/bin/sh usr/bin/dash usr/bin/cat usr/bin/grep usr/bin/id usr/bin/ls usr/bin/true usr/bin/env
usr/lib64/ld-linux-x86-64.so.2 usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 usr/lib/x86_64-linux-gnu/libc.so.6
usr/lib/x86_64-linux-gnu/libselinux.so.1 usr/lib/x86_64-linux-gnu/libpcre2-8.so.0
usr/lib/x86_64-linux-gnu/libpcre2-8.so.0.11.2
""".split()


def additions():
    """The second layer: a program of the image's own, and what the third one removes and replaces."""
    return tar([
        directory("usr/local/bin"),
        file("usr/local/bin/only-in-image", "#!/bin/sh\necho only in the image\n", 0o755),
        directory("opt/old"),
        file("opt/old/file", "removed by the next layer\n"),
        directory("opt/replaced"),
        file("opt/replaced/below", "hidden by an opaque directory\n"),
        directory("opt/links"),
        file("opt/links/first", "two names\n"),
        hardlink("opt/links/second", "opt/links/first"),
        symlink("opt/links/relative", "first"),
        symlink("opt/links/absolute", "/opt/links/first"),
        file("srv/hello", "hello from the image\n"),
    ])


def removals():
    """The third layer: a whiteout and an opaque directory."""
    return tar([
        directory("opt"),
        whiteout("opt/old"),
        directory("opt/replaced"),
        file("opt/replaced/above", "new\n"),
        opaque("opt/replaced"),
    ])


ENTRYPOINT = """#!/bin/sh
echo "== ENTRYPOINT =="
echo "to the standard error" >&2
export FROM_ENTRYPOINT="${ENTRY_VAR:-unset}" PATH="/entry:$PATH"
unset IMAGE_VAR
case $ENTRY_DO in
  fail) echo "cannot go on" >&2; exit 3 ;;
  ignore) exit 0 ;;
  hang) kill -STOP $$ ;;
  stdin) read -r line || line=nothing; export READ="$line" ;;
  spy) echo "$ENTRY_PID" > /proc/self/fd/77; read -r line < /proc/self/fd/78 ;;
  chatter) while :; do echo "without an end"; done & ;;
  zeros) i=0; while [ $i -lt 30000 ]; do printf '%01000d' 0; i=$((i+1)); done ;;
esac
: > /entrypoint-ran
exec "$@"
"""


def tiny(base, architecture):
    """A small root from the base tar, with a file that names its platform."""
    entries = [directory(name)
        for name in ("etc", "usr", "usr/bin", "usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu", "srv")]
    with tarfile.open(base) as archive:
        for member in archive:
            member.name = member.name.removeprefix("./")
            if member.name in TINY:
                member.pax_headers = {}
                entries.append((member, archive.extractfile(member).read()) if member.isreg() else member)
    return tar(entries + [file("platform", architecture + "\n")])


def build_jobs(base, small, mpi, out):
    """Images for what Slurm adds to a job: with MPI, and with the variable by which PyTorch's images are known."""
    # Between the nodes of one machine there is the loopback interface, which both MPIs avoid by themselves; UCX would
    # take them for one node.
    network = ["OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader,tcp", "OMPI_MCA_btl_tcp_if_include=lo", "UCX_TLS=self,tcp",
        "UCX_NET_DEVICES=lo"]
    parallel = Layout(out / "mpi")
    parallel.publish(parallel.image([Path(base).read_bytes(), Path(mpi).read_bytes()],
        dict(CONFIG, Env=CONFIG["Env"] + network), "+zstd"))
    pytorch = Layout(out / "pytorch")
    pytorch.publish(pytorch.image([small],
        dict(CONFIG, Env=CONFIG["Env"] + ["PYTORCH_VERSION=2.1.0", "SLURM_PROCID=of-the-image"])))


def build_main(base, out):
    debian = Layout(out / "debian")
    debian.publish(debian.image([Path(base).read_bytes(), additions(), removals()], CONFIG))


def build_others(base, mpi, nested, out):
    small = tiny(base, "amd64")
    zstd = Layout(out / "zstd")
    zstd.publish(zstd.image([small, additions(), removals()], CONFIG, "+zstd"))
    plain = Layout(out / "tar")
    plain.publish(plain.image([small, additions(), removals()], CONFIG, ""))

    other = tar([file("platform", "arm64\n")])
    multi = Layout(out / "multi")
    multi.publish(multi.index({
        "arm64": multi.image([other], CONFIG, architecture="arm64"),
        "amd64": multi.image([small], CONFIG),
    }))
    arm64 = Layout(out / "arm64")
    arm64.publish(arm64.index({"arm64": arm64.image([other], CONFIG, architecture="arm64")}))

    entry = Layout(out / "entry")
    entry.publish(entry.image([small, tar([file("entry.sh", ENTRYPOINT, 0o755)])],
        CONFIG | {"Entrypoint": ["/entry.sh"]}))

    bare = Layout(out / "bare")
    bare.publish(bare.image([tar([file("bare", program(), 0o755)])], {}))
    build_jobs(base, small, mpi, out)
    tools = Layout(out / "nested")
    tools.publish(tools.image([Path(base).read_bytes(), Path(nested).read_bytes()], CONFIG, "+zstd"))


if __name__ == "__main__":
    build_main(sys.argv[1], Path(sys.argv[2]))
    if len(sys.argv) > 3:
        build_others(sys.argv[1], sys.argv[3], sys.argv[4], Path(sys.argv[2]))
