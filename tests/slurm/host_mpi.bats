#!/usr/bin/env bats
# The node's MPI in place of the image's. There are three builds: MPICH 4.0 of Debian 12, in the image; MPICH 3.4 of
# Debian 11; and one with MPICH's own names of files, of which a small library says that it was called, and MPICH 4.0
# under another name does the work.
load helper

mpi=$registry/debian:mpi
node_mpi=$state/node-mpi
old_image=/home/alice/old-mpich.sqsh
sums="4 ranks on 2 nodes, 2 on the first, sum 6"

setup_file() {
  rm -rf "$node_mpi"
  mkdir -p "$node_mpi"
  get_old_mpich
  alice srun -w n1 --container-image="$mpi" bash -c 'cat /usr/lib/x86_64-linux-gnu/libmpich.so.12.*' \
    > "$node_mpi/libmpich.so.12.2.2"
  build_mpich
  cat > "$node_mpi/version.c" << 'END'
#include <stdio.h>
extern int MPI_Init(int*, char***), MPI_Get_library_version(char*, int*), MPI_Finalize(void);
int main(int argc, char** argv) {
    char version[8192] = "";
    int length = 0;
    MPI_Init(&argc, &argv);
    MPI_Get_library_version(version, &length);
    printf("%.18s\n", version);
    return MPI_Finalize();
}
END
  gcc -O1 "$node_mpi/version.c" "$node_mpi/libmpich.so.12.1.10" -Wl,--allow-shlib-undefined -o "$node_mpi/version"
  chmod -R a+rX "$node_mpi"
  make_old_image
}

teardown_file() {
  rm -rf "$node_mpi"
  in_home "rm -f $old_image"
}

# Debian 11's library, which needs nothing but the C library. What apt knows of this machine stays as it is.
get_old_mpich() {
  local apt=$BATS_FILE_TMPDIR/apt mirror options
  # shellcheck disable=SC2016
  mirror=${BERTH_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
    'Codename: bookworm' | sort -u | head -n 1)}
  mkdir -p "$apt"/{lists/partial,cache/archives/partial}
  : > "$apt/status"
  echo "deb ${mirror:-http://deb.debian.org/debian} bullseye main" > "$apt/sources.list"
  options=(-q -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State=$apt"
    -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
    -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update > "$apt/log" 2>&1 || fail "$(tail -n 5 "$apt/log")"
  (cd "$apt" && apt-get "${options[@]}" download libmpich12 >> "$apt/log" 2>&1) || fail "$(tail -n 5 "$apt/log")"
  dpkg-deb -x "$apt"/libmpich12_*.deb "$apt/package"
  cp "$apt/package/usr/lib/x86_64-linux-gnu/libmpich.so.12.1.10" "$node_mpi/"
}

# The build with MPICH's names.
build_mpich() {
  cp "$node_mpi/libmpich.so.12.2.2" "$node_mpi/libnode_mpich.so.1"
  cat > "$node_mpi/mpi.c" << 'END'
#include <stdio.h>
extern int PMPI_Init(int*, char***), PMPI_Get_library_version(char*, int*);
int MPI_Init(int* argc, char*** argv) {
    char version[8192] = "";
    int length = 0, code = PMPI_Init(argc, argv);
    PMPI_Get_library_version(version, &length);
    fprintf(stderr, "the node's %.13s\n", version);
    return code;
}
END
  # The compiler takes the name from a library that says it.
  echo 'int PMPI_Init(void) { return 0; } int PMPI_Get_library_version(void) { return 0; }' |
    gcc -shared -fPIC -x c - -Wl,-soname,libnode_mpich.so.1 -o "$node_mpi/names.so"
  gcc -O1 -shared -fPIC -Wl,-soname,libmpi.so.12 "$node_mpi/mpi.c" "$node_mpi/names.so" \
    -o "$node_mpi/libmpi.so.12.9.0"
}

# The image with Debian 11's MPICH in place of its own.
make_old_image() {
  in_home "srun -w n1 --container-image=$mpi --container-remap-root --container-save=$old_image \
    --container-mounts=$node_mpi:/node-mpi bash -c 'cd /usr/lib/x86_64-linux-gnu && rm libmpich.so.12.* &&
      cp /node-mpi/libmpich.so.12.1.10 . && ln -sf libmpich.so.12.1.10 libmpich.so.12'"
}


teardown() { restore_site; }

# with_mpi [LINE...]: the site lists the build with MPICH's names.
with_mpi() {
  with_site_lines '[mpi]' "libraries = [\"$node_mpi/libmpi.so.12.9.0\"]" \
    "dependencies = [\"$node_mpi/libnode_mpich.so.1\"]" "$@"
}

# four [NAME=VALUE...] COMMAND: two tasks on each of two nodes.
four() {
  alice timeout $((60 * slowness)) env "${@:1:$#-1}" srun -N2 --ntasks-per-node=2 --mpi=pmi2 \
    --container-image="$mpi" "${@: -1}"
}

@test "MPICH of the image gives way to the node's, which has the right sums on two nodes" {
  with_mpi 'replace = true'
  run -0 --separate-stderr four sums-mpich
  expect_equal "$output" "$sums"
  expect_equal "$stderr" "$(yes "the node's MPICH Version" | head -n 4)"
}

@test "a job turns the node's MPI on or off by BERTH_MPI_REPLACE, unless the site has locked it" {
  with_mpi
  run -0 --separate-stderr four sums-mpich
  expect_equal "$output|$stderr" "$sums|"
  run -0 --separate-stderr four BERTH_MPI_REPLACE=true sums-mpich
  expect_equal "$output" "$sums"
  expect_equal "$(sort -u <<< "$stderr")" "the node's MPICH Version"
  with_site_lines 'replace = true'
  run -0 --separate-stderr four BERTH_MPI_REPLACE=false sums-mpich
  expect_equal "$output|$stderr" "$sums|"
  with_site_lines '[policy]' 'locked = "mpi"'
  run four BERTH_MPI_REPLACE=false sums-mpich
  expect_failure
  expect_output_like 'BERTH_MPI_REPLACE: mpi.replace is locked by'
}

@test "MPICH 3.4 of the image gives way to MPICH 4.0 of the node" {
  with_site_lines '[mpi]' "libraries = [\"$node_mpi/libmpich.so.12.2.2\"]"
  version() {
    alice env "$@" srun -w n1 -n2 --mpi=pmi2 --container-image="$old_image" --container-mounts="$node_mpi:/node-mpi" \
      /node-mpi/version
  }
  run -0 --separate-stderr version
  expect_equal "$(sort -u <<< "$output" | tr -s '\t ' ' ')|$stderr" "MPICH Version: 3.4|"
  run -0 --separate-stderr version BERTH_MPI_REPLACE=true
  expect_equal "$(sort -u <<< "$output" | tr -s '\t ' ' ')|$stderr" "MPICH Version: 4.0|"
}

@test "MPICH 3.4 of the node does not replace MPICH 4.0 of the image, which is told once and runs" {
  with_site_lines '[mpi]' "libraries = [\"$node_mpi/libmpich.so.12.1.10\"]" 'replace = true'
  run -0 --separate-stderr four sums-mpich
  expect_equal "$output" "$sums"
  expect_equal "$(wc -l <<< "$stderr")" 1
  [[ $stderr == *"the container has the image's own MPI: $node_mpi/libmpich.so.12.1.10 of the node is older than "* ]]
  [[ $stderr == *"/libmpich.so.12.2."*" of the image: it lacks "*" of its functions, such as MPI_"* ]]
}

@test "Open MPI of the image stays, and the plan shows what replaces what" {
  with_mpi 'replace = true'
  # The image has both, and the one that fits is replaced.
  run -0 --separate-stderr alice timeout $((60 * slowness)) srun -N2 --ntasks-per-node=2 --mpi=pmix \
    --container-image="$mpi" sums-openmpi
  expect_equal "$output|$stderr" "$sums|"
  run -0 in_home "BERTH_PLAN=1 srun -w n1 --container-image=$mpi true"
  expect_output_like "libmpich.so.12.2.[0-9]+ +$node_mpi/libmpi.so.12.9.0 ro +hook mpi +the node's MPI, 12.9.0, in \
place of the image's, 12.2.[0-9]+"
  expect_output_like "libnode_mpich.so.1 +$node_mpi/libnode_mpich.so.1 ro +hook mpi +the node's MPI needs it"
}
