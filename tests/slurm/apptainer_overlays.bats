#!/usr/bin/env bats
# apptainer --overlay with squashfs files and folders that are only read: what lies over an image, and in which order.
# shellcheck disable=SC2016,SC2154
load helper

# Files as conda environments are kept on shared file systems. Marks of removed files are those that mksquashfs writes
# of a folder to which an overlay has written.
setup_file() {
  for name in apptainer singularity; do root ln -sf berth "/usr/bin/$name"; done
  in_home 'rm -rf over; mkdir -p over; cd over
    berth import --quiet --force --plain -o d.sqsh '"$image"'
    apptainer --quiet pull --name d.sif docker://'"$image"'
    mkdir -p one/opt/both two/opt/both marks/etc folder/opt/both
    echo one > one/opt/both/name; echo one > one/opt/one
    echo two > two/opt/both/name; echo two > two/issue
    echo folder > folder/opt/both/name
    mkdir -p written/upper/opt written/work; echo written > written/upper/opt/written
    mksquashfs one one.sqf -noappend -quiet -no-progress
    mksquashfs two two.sqf -noappend -quiet -no-progress
    mkdir -p marks/opt/both; echo marks > marks/opt/both/marks
    python3 -c "import os
os.setxattr(\"marks/opt/both\", \"user.overlay.opaque\", b\"y\")"
    mksquashfs marks marks.sqf -noappend -quiet -no-progress -xattrs -p "etc/issue c 644 0 0 0 0"
    truncate -s 1M e.img' > "$BATS_FILE_TMPDIR/made" 2>&1 || { cat "$BATS_FILE_TMPDIR/made"; return 1; }
}

teardown() {
  restore_site
}

teardown_file() {
  in_home 'chmod -R u+w over; rm -rf over' > /dev/null 2>&1 || true
  for name in apptainer singularity; do root rm -f "/usr/bin/$name"; done
}

over() { in_home "cd over; $1"; }

# prints EXPECTED COMMAND: standard output, exactly.
prints() {
  run -0 --separate-stderr over "$2"
  expect_equal "$output" "$1"
}

# fails TEXT COMMAND: one line FATAL with TEXT, and 255.
fails() {
  run -255 over "$2"
  expect_equal "$(grep -c '^FATAL:   ' <<< "$output")" 1
  expect_output_like "$1"
}

@test "a squashfs file lies over the image, with :ro and without, and only reads" {
  for option in '' :ro; do
    prints $'one\nyes' "apptainer exec --overlay one.sqf$option d.sif \
      sh -c 'cat /opt/one; test -f /etc/issue && echo yes'"
  done
  run ! over 'apptainer exec --overlay one.sqf d.sif touch /opt/new'
  expect_output_like 'Read-only file system'
  prints one "SINGULARITY_OVERLAYIMAGE=\$PWD/one.sqf singularity exec docker://$image cat /opt/one"
  prints one 'apptainer exec -o one.sqf d.sqsh cat /opt/one'
}

@test "of several the later lies over the earlier, folders among them" {
  prints two 'apptainer exec --overlay one.sqf --overlay two.sqf d.sif cat /opt/both/name'
  prints one 'apptainer exec --overlay two.sqf,one.sqf d.sif cat /opt/both/name'
  prints $'folder\none' 'apptainer exec -o one.sqf -o folder:ro -o written:ro d.sif cat /opt/both/name /opt/one'
  prints written 'apptainer exec -o written:ro d.sif cat /opt/written'
  prints one 'apptainer exec -o folder:ro -o one.sqf d.sif cat /opt/both/name'
}

@test "what a file marks as removed is gone, of the image and of the layers below" {
  prints 'no marks' 'apptainer exec -o one.sqf -o marks.sqf d.sif sh -c \
    "test -e /etc/issue || echo -n \"no \"; ls /opt/both"'
  prints 'there' 'apptainer exec -o marks.sqf -o two.sqf d.sif sh -c "test -e /issue && echo there"'
}

@test "what is written goes to a folder, or memory, and never to what is only read" {
  over 'rm -rf o; mkdir o; cp one.sqf before'
  prints $'new\none' 'apptainer exec -o one.sqf:ro -o o -o folder:ro d.sif sh -c \
    "echo new > /opt/both/name; cat /opt/both/name /opt/one"'
  prints 'new folder' 'apptainer exec -o one.sqf -o o d.sif cat /opt/both/name |
    paste -d" " - folder/opt/both/name'
  over 'cmp one.sqf before; test ! -e folder/new'
  prints memory 'apptainer exec --writable-tmpfs -o folder:ro d.sif sh -c \
    "echo memory > /opt/both/name; cat /opt/both/name"'
  prints folder 'cat folder/opt/both/name'
  prints fakeroot 'apptainer exec --fakeroot -o one.sqf -o o d.sif \
    sh -c "rm /opt/one; test -e /opt/one || echo fakeroot"'
  fails 'would both take what is written' 'apptainer exec -o o -o written d.sif true'
}

@test "binds, home and working directory are there over layers too" {
  prints $'there\none' 'mkdir -p data; echo there > data/x
    apptainer exec -o one.sqf -B data:/opt/both/deep/data d.sif \
    cat /opt/both/deep/data/x /opt/one'
  prints over 'apptainer exec -o one.sqf d.sif sh -c "basename \$PWD"'
  prints $'there\none' 'apptainer exec -o one.sqf -B data:/data d.sif cat /data/x /opt/one'
}

@test "files that are kept unpacked do not show through" {
  over 'mkdir -p hides/etc; echo hides > hides/etc/debian_version
    mksquashfs hides hides.sqf -noappend -quiet -no-progress'
  for _ in 1 2 3 4; do
    run -0 over "berth run $image cat /etc/debian_version"
  done
  prints hides "apptainer exec -o hides.sqf docker://$image cat /etc/debian_version"
}

@test "tasks of a step share the container, with the same files over it" {
  run -0 --separate-stderr over "srun -N2 --ntasks-per-node=2 -O apptainer exec -o one.sqf d.sif cat /opt/one"
  expect_equal "$output" $'one\none\none\none'
  run -0 --separate-stderr over "srun -w n1 -n2 -O apptainer exec -o one.sqf d.sif readlink /proc/self/ns/mnt"
  expect_equal "$(sort -u <<< "$output" | wc -l)" 1
  run -0 --separate-stderr over "srun -w n1 -n2 -O sh -c 'apptainer exec -o \$([ \$SLURM_PROCID = 0 ] && echo one || \
    echo two).sqf d.sif cat /opt/both/name' | sort"
  expect_equal "$output" $'one\ntwo'
}

@test "an instance has them" {
  over 'apptainer -q instance start -o one.sqf d.sif layered'
  prints one 'apptainer exec instance://layered cat /opt/one; apptainer -q instance stop layered'
}

@test "what is no squashfs file, or missing, is one line with what to do" {
  fails 'laying /home/alice/over/none.sqf over the image .option --overlay.: the source path does not exist' \
    'apptainer exec -o none.sqf:ro d.sif true'
  fails 'd.sif over the image .*is a SIF file.*write a squashfs file or a folder' \
    'apptainer exec -o d.sif:ro d.sif true'
  fails 'e.img: it is not a squashfs file' 'apptainer exec -o e.img d.sif true'
  over 'printf "\x53\xef" | dd of=e.img bs=1 seek=1080 conv=notrunc status=none'
  fails 'e.img.*an ext2, ext3 or ext4 file system; .*make a squashfs file' 'apptainer exec -o e.img:ro d.sif true'
  fails 'is given twice; leave one' 'apptainer exec -o folder:ro -o folder:ro d.sif true'
  over 'mkdir -p $(seq -f many/%g 65); touch many/1/first many/64/last'
  fails 'more than 64' 'apptainer exec $(seq -f "-o many/%g:ro" 65) d.sif true'
  prints $'/first\n/last' 'apptainer exec $(seq -f "-o many/%g:ro" 64) d.sif ls /first /last'
  run over 'cp d.sqsh changed.sqf; truncate -s 3M changed.sqf; apptainer exec -o changed.sqf d.sif true'
  (( status != 0 )) || fail "$output"
}

@test "a site says where they may lie and whose files they are, as of mounts" {
  with_site_lines '[policy]' 'mount_sources = "/srv /home/alice/over/one.sqf /home/alice/over/o"'
  prints one 'apptainer --silent exec --no-home --no-mount tmp,cwd -o one.sqf d.sif cat /opt/one'
  fails 'laying /home/alice/over/two.sqf over the image .*policy.mount_sources allows' \
    'apptainer --silent exec --no-home --no-mount tmp,cwd -o two.sqf d.sif true'
  fails 'laying /home/alice/over/folder over the image .*policy.mount_sources allows' \
    'apptainer --silent exec --no-home --no-mount tmp,cwd -o folder:ro d.sif true'
  over 'ln -sf two.sqf link.sqf'
  fails 'link.sqf over the image .*leads to /home/alice/over/two.sqf' \
    'apptainer --silent exec --no-home --no-mount tmp,cwd -o link.sqf d.sif true'
  restore_site
  with_site_lines '[policy]' 'image_owners = "root"'
  fails 'two.sqf over the image .*policy.image_owners' "apptainer --silent exec -o two.sqf docker://$image true"
}
