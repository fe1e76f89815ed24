#!/usr/bin/env bats
# Images in squashfs files: made by mksquashfs and by berth import, with every option, by many steps at once.
load helper

setup_file() {
  in_home "berth import --quiet -o imported.sqsh $registry/debian:tar"
}

teardown_file() {
  in_home 'rm -rf imported.sqsh image.sqsh c.sqsh junk.sqsh tree'
}

# One task on n1 in the imported file.
from_file() { in_home "srun -w n1 --container-image=./imported.sqsh $*"; }

@test "a squashfs file made by mksquashfs is an image" {
  in_home 'rm -rf image.sqsh tree; mkdir tree; cd tree; mkdir -p bin lib64 usr/lib/x86_64-linux-gnu etc proc dev
    cp -L /bin/cat bin/; cp -L /lib64/ld-linux-x86-64.so.2 lib64/;
      cp -L /lib/x86_64-linux-gnu/libc.so.6 usr/lib/x86_64-linux-gnu/
    ln -s usr/lib lib; echo from squashfs > hello; cd ..; mksquashfs tree image.sqsh -quiet -no-progress -all-root'
  run -0 in_home 'srun --container-image=./image.sqsh cat /hello'
  expect_equal "$output" "from squashfs"
  run -0 in_home 'srun --container-image=/home/alice/image.sqsh cat /hello'
  expect_equal "$output" "from squashfs"
}

@test "a squashfs of each compressor runs" {
  for compressor in gzip xz lz4 zstd lzo; do
    in_home "rm -f c.sqsh; mksquashfs tree c.sqsh -quiet -no-progress -comp $compressor"
    run -0 in_home 'srun --container-image=./c.sqsh cat /hello'
    expect_equal "$output" "from squashfs"
  done
}

@test "a squashfs in the working directory without ./ is an error that says so" {
  run in_home 'touch image.sqsh; srun --container-image=image.sqsh true'
  expect_failure
  expect_output_like '\./image\.sqsh'
  # Nor where there is none: no registry is asked.
  run in_home 'srun --container-image=nosuch.sqsh true'
  expect_failure
  expect_one_error_line
  expect_output_like 'image nosuch.sqsh: there is no such file here; for a file write its path, as \./nosuch\.sqsh'
}

@test "a missing or corrupt squashfs is one line" {
  expect_rejected /home/alice/not-there.sqsh "not-there.sqsh"
  in_home 'head -c 65536 /dev/urandom > junk.sqsh'
  expect_rejected /home/alice/junk.sqsh "junk.sqsh"
}

@test "an imported image has its files and its environment, by a relative and by an absolute path" {
  run -0 from_file "sh -c 'only-in-image; echo \$IMAGE_VAR; pwd'"
  expect_equal "$output" $'only in the image\nfrom-image\n/srv'
  run -0 alice srun -w n1 --container-image=/home/alice/imported.sqsh only-in-image
}

@test "an imported file is readable by the programs of squashfs-tools" {
  run -0 in_home 'unsquashfs -cat imported.sqsh usr/local/bin/only-in-image'
  expect_output_like "only in the image"
}

@test "a squashfs with --container-writable and with --container-readonly" {
  run -0 from_file --container-writable "sh -c 'echo written > /srv/new && cat /srv/new'"
  expect_equal "$output" written
  run from_file --container-readonly "sh -c 'echo x > /srv/new'"
  expect_failure
  expect_output_like "Read-only file system"
}

@test "a squashfs with --container-mounts" {
  in_home 'echo mounted > from-host'
  run -0 from_file --container-mounts=./from-host:/mnt/x cat /mnt/x
  expect_equal "$output" mounted
}

@test "a squashfs with --container-workdir" {
  run -0 from_file --container-workdir=/opt/links cat first
  expect_equal "$output" "two names"
}

@test "a squashfs with --container-remap-root and without" {
  run -0 from_file --container-remap-root id -u
  expect_equal "$output" 0
  run -0 from_file --no-container-remap-root id -u
  expect_equal "$output" 2001
}

@test "a squashfs for several tasks on two nodes" {
  run -0 in_home 'srun -N2 -n8 --container-image=./imported.sqsh cat /srv/hello'
  expect_equal "$(grep -c "hello from the image" <<< "$output")" 8
}

@test "four steps at once from one squashfs, which leave nothing and no copy" {
  run -0 in_home 'for i in 1 2 3 4; do srun -w n1 --container-image=./imported.sqsh cat /srv/hello & done; wait'
  expect_equal "$(grep -c "hello from the image" <<< "$output")" 4
  expect_no_leftovers
}

@test "a file that is replaced while a step runs leaves the step alone" {
  run -0 in_home 'rm -f started replaced; cp imported.sqsh c.sqsh;
      srun -w n1 --container-image=./c.sqsh --container-mounts=./:/data sh -c \
    ": > /data/started; until test -e /data/replaced; do ls / > /dev/null; done; only-in-image" &
      until test -e started; do sleep 0.1; done; cp imported.sqsh \
    d.sqsh; mv d.sqsh c.sqsh; touch replaced; wait $!'
  expect_equal "$output" "only in the image"
}

@test "a directory, a device and a file that is cut off are no squashfs images" {
  expect_rejected /dev/urandom /dev/urandom
  in_home 'head -c 100000 imported.sqsh > junk.sqsh'
  expect_rejected /home/alice/junk.sqsh junk.sqsh
  run ! in_home 'srun -w n1 --container-image=./ true'
  expect_failure
  expect_nodes_up
}

# As docker::configure of Enroot 4.1.2 writes it.
make_enroot_file() {
  in_home "rm -rf rc-tree; unsquashfs -quiet -no-progress -d rc-tree imported.sqsh > /dev/null; cat > rc-tree/etc/rc
    printf '#!/bin/sh\nexport MADE_BY_ENTRY=\$PWD\nexec \"\$@\"\n' > rc-tree/entry.sh; chmod 755 rc-tree/entry.sh
    mksquashfs rc-tree rc.sqsh -quiet -no-progress -all-root -noappend > /dev/null" <<'END'
# enroot-provenance: docker://debian

mkdir -p "/srv" 2> /dev/null
cd "/srv" && unset OLDPWD || exit 1

if [ -s /etc/rc.local ]; then
    . /etc/rc.local
fi

if [ $# -gt 0 ]; then
    exec '/entry.sh' "$@"
else
    exec '/entry.sh' 'sh' '-c' 'echo the command'
fi
END
}

@test "row 22: --container-entrypoint runs the /etc/rc of a .sqsh that Enroot made" {
  make_enroot_file
  # shellcheck disable=SC2016
  show='echo ${MADE_BY_ENTRY-unset} $IMAGE_VAR; pwd'
  run -0 in_home "srun -w n1 --container-image=./rc.sqsh --container-entrypoint sh -c '$show'"
  expect_equal "$output" $'/srv from-image\n/srv'
  run -0 in_home "srun -w n1 --container-image=./rc.sqsh sh -c '$show'"
  expect_equal "$output" $'unset from-image\n/srv'
  run -0 in_home 'berth run ./rc.sqsh'
  expect_equal "$output" "the command"
  # Saved, and saved once more: the script is still the image's own, and does not run itself.
  in_home "srun -w n1 --container-image=./rc.sqsh --container-save=rc2.sqsh true &&
    srun -w n1 --container-image=./rc2.sqsh --container-save=rc3.sqsh true"
  run -0 in_home "srun -w n1 --container-image=./rc3.sqsh --container-entrypoint sh -c '$show'"
  expect_equal "$output" $'/srv from-image\n/srv'
  alice rm -rf rc-tree rc.sqsh rc2.sqsh rc3.sqsh
}

@test "row 28: /etc/environment and /etc/fstab of a .sqsh that Enroot made" {
  make_enroot_file
  in_home 'mkdir -p rc-tree/opt/data; echo of the image > rc-tree/opt/data/x
    echo "JOB_IS=\${SLURM_JOB_ID}" >> rc-tree/etc/environment
    printf "%s\n" "tmpfs /scratch tmpfs size=1m" "\${ENROOT_ROOTFS}/opt/data /data none bind,ro" \
      "/home/alice /stolen none bind" > rc-tree/etc/fstab
    mksquashfs rc-tree rc.sqsh -quiet -no-progress -all-root -noappend > /dev/null'
  # shellcheck disable=SC2016
  show='test $JOB_IS = $SLURM_JOB_ID && grep -o "/scratch .* - tmpfs" /proc/self/mountinfo | grep -o "tmpfs\$"
    cat /data/x; ls -d /stolen || true'
  run -0 in_home "srun -w n1 --container-image=./rc.sqsh sh -c '$show'"
  expect_output_like 'berth: n1: warning: /etc/fstab of the image, line 3, is left out: an image mounts nothing'
  [[ $output == *$'tmpfs\nof the image'* && $output == *"cannot access '/stolen'"* ]] || fail "$output"
  alice rm -rf rc-tree rc.sqsh
}

@test "row 21: .cache/x.sqsh is a path, and the name of a registry may have an underscore" {
  in_home "mkdir -p .cache; berth import -q -o .cache/x.sqsh $registry/debian:tar"
  run -0 in_home 'srun -w n1 --container-image=.cache/x.sqsh only-in-image'
  expect_equal "$output" "only in the image"
  alice rm -r .cache/x.sqsh
  with_site_lines '[registry."my_registry.example"]' "mirror = [\"$registry\"]"
  run alice srun -w n1 --container-image=my_registry.example/debian:tar only-in-image
  restore_site
  expect_status 0
  expect_equal "$output" "only in the image"
}
