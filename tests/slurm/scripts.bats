#!/usr/bin/env bats
# What scripts written for Pyxis and Enroot do, and must find: variables of the account, commands beside the script,
# containers made by `enroot create` on another machine, files as images.
# shellcheck disable=SC2016
load helper

setup_file() {
  root ln -sf berth /usr/bin/enroot
  in_home "rm -rf scripts; mkdir scripts; berth import --quiet -o scripts/x.sqsh $registry/debian:12"
  start_faulty
}

teardown_file() {
  stop_faulty
  root rm -f /usr/bin/enroot
  in_home 'rm -rf scripts .local/share/berth/created'
}

setup() {
  remove_containers
  # Those of the machine where people log in.
  in_home 'names=$(enroot list); [ -z "$names" ] || enroot remove -f $names; rm -rf .local/share/berth/created'
}

teardown() {
  cancel_everything
  remove_containers
}

remove_containers() {
  alice srun -w n1 bash -c \
    'for name in $(berth ps --json | jq -r ".containers[].name"); do berth rm --force "$name"; done' || true
}

# In alice's folder of this file.
here() { in_home "cd scripts; $1"; }

account='echo $HOME $USER $LOGNAME $SHELL; test -d $HOME'

@test "HOME, USER, LOGNAME and SHELL are the account's where the environment has none" {
  for export in NONE NIL A=1; do
    run -0 contained --export="$export" sh -c "$account"
    expect_equal "$output" "/home/alice alice alice /bin/bash"
    run -0 contained --export="$export" --container-mount-home sh -c 'test -s ~/scripts/x.sqsh'
  done
  run -0 contained --export=HOME=/opt,USER=me sh -c "$account"
  expect_equal "$output" "/opt me alice /bin/bash"
  run -0 contained --export=NONE --container-remap-root sh -c 'echo $HOME'
  expect_equal "$output" /root
  run -0 in_home "rm -f out; cat > job.sh; $sbatch_wait --export=NONE -w n1 -o out job.sh; cat out" <<END
#!/bin/sh
srun --container-image=$image sh -c 'echo \$HOME \$USER'
END
  expect_equal "$output" "/home/alice alice"
}

@test "a command without a slash that lies in the working directory runs, as slurmstepd has it" {
  here 'printf "#!/bin/sh\necho hi\n" > hi.sh; chmod +x hi.sh; printf "#!/bin/sh\necho mine\n" > only-in-image
    chmod +x only-in-image; echo x > plain'
  run -0 here "srun -w n1 --container-image=$image --container-mounts=\$PWD --container-workdir=\$PWD hi.sh"
  expect_equal "$output" hi
  # It is the last one that is tried.
  run -0 here "srun -w n1 --container-image=$image --container-mounts=\$PWD --container-workdir=\$PWD only-in-image"
  expect_equal "$output" "only in the image"
  run here "srun -w n1 --container-image=$image --container-mounts=\$PWD --container-workdir=\$PWD plain"
  expect_status 126
  run -127 here "srun -w n1 --container-image=$image --container-mounts=\$PWD --container-workdir=\$PWD none.sh"
}

@test "joining says what differs, and nothing where nothing does" {
  alice srun -w n1 --container-image="$image" --container-name=joined --container-mounts=/home:/h sh -c \
    'touch /h/alice/scripts/started; sleep 600' > /dev/null 2>&1 3>&- &
  wait_until 30 alice test -e scripts/started
  run -0 alice srun -w n1 --overlap --container-name=joined --no-container-mount-home true
  expect_equal "$output" ""
  run -0 alice srun -w n1 --container-name=joined --no-container-mount-home --container-mounts=/home:/h true
  expect_equal "$output" ""
  run -0 alice srun -w n1 --container-name=joined --container-mounts=/home:/h,/home:/i true
  expect_output_like 'ignoring --container-mounts: it runs already'
  run -0 alice srun -w n1 --container-name=joined --container-mount-home true
  expect_output_like 'ignoring --container-mount-home: it runs already'
  in_home 'rm scripts/started'
}

@test "enroot create -n pyxis_NAME FILE on another machine makes what srun --container-name=NAME finds" {
  run -0 here 'enroot create -n pyxis_far x.sqsh'
  run -0 alice srun -w n1 --container-name=far sh -c 'only-in-image; touch /srv/kept'
  expect_output_like $'container far: making it here of .*\nonly in the image'
  run -0 alice srun -w n1 --container-name=far ls /srv/kept
  expect_equal "$output" /srv/kept
  run -0 here 'find ../.local/share/berth/created ! -type d ! -type f'
  expect_equal "$output" ""
  # It is away everywhere with its record.
  run -0 alice srun -w n1 berth rm far
  run alice srun -w n1 --container-name=far true
  expect_failure
  expect_one_error_line
  expect_output_like 'container far: there is none of that name on this node, .* --container-image'
  run -0 here 'enroot remove -f pyxis_far'
}

@test "what enroot create makes anew elsewhere is made anew on a node, when no step uses it" {
  here 'cp x.sqsh both.sqsh'
  # Where people log in the containers may lie on that machine's own disk as well.
  local data='export BERTH_DATA_PATH=~/.local/share/berth/containers;'
  made() { here "$data enroot create -n pyxis_again $1"; }
  again() { alice srun -w n1 --container-name=again "$@"; }
  made both.sqsh
  run -0 again sh -c 'touch /srv/kept'
  expect_output_like 'container again: making it here of '
  # The same record: what it has written stays.
  run -0 again ls /srv/kept
  expect_equal "$output" /srv/kept
  in_home 'rm -f scripts/used'
  again --container-mounts=/home:/h sh -c 'touch /h/alice/scripts/used; sleep 600' > /dev/null 2>&1 3>&- &
  wait_until 30 alice test -e scripts/used
  here 'cp x.sqsh other.sqsh'
  made '--force other.sqsh'
  # While somebody is in it, it stays as it is.
  run -0 again --overlap ls /srv/kept
  expect_equal "$output" /srv/kept
  cancel_everything
  run -0 again ls /srv
  expect_output_like 'container again: making it here again of .*, as enroot create did elsewhere'
  expect_equal "${lines[-1]}" hello
  run -0 again sh -c 'touch /srv/kept'
  expect_equal "$output" ""
  # One that names an image has what is there as well.
  made '--force other.sqsh'
  run -0 again --container-image="$registry/debian:zstd" ls /srv
  expect_output_like 'container again: making it here again of '
  expect_equal "${lines[-1]}" hello
  # A file that cannot be read is an error, until it can be.
  made '--force other.sqsh'
  here 'rm other.sqsh ../.local/share/berth/containers/global_again/image'
  run again true
  expect_failure
  expect_one_error_line
  expect_output_like 'other.sqsh, of which enroot create has made it elsewhere, cannot be read: No such file'
  here 'cp x.sqsh other.sqsh'
  run -0 again only-in-image
  expect_output_like $'making it here again of .*\nonly in the image'
  here "$data enroot remove -f pyxis_again"
}

@test "what enroot create has made on a node is the node's own, whatever is made elsewhere" {
  run -0 alice srun -w n1 bash -c 'cd scripts; enroot create -n pyxis_own x.sqsh'
  run -0 alice srun -w n1 --container-name=own touch /srv/kept
  run -0 here 'enroot create -n pyxis_own x.sqsh'
  run -0 alice srun -w n1 --container-name=own ls /srv/kept
  expect_equal "$output" /srv/kept
}

@test "enroot create needs its file no more where the copy lies in the home; without either one line says so" {
  local data='export BERTH_DATA_PATH=~/.local/share/berth/containers;'
  here 'cp x.sqsh y.sqsh'
  run -0 here "$data enroot create -n pyxis_copied y.sqsh; enroot create -n pyxis_gone y.sqsh; rm y.sqsh"
  run -0 alice srun -w n1 --container-name=copied only-in-image
  expect_output_like 'only in the image'
  here 'rm ../.local/share/berth/containers/global_gone/image'
  run alice srun -w n1 --container-name=gone true
  expect_failure
  expect_one_error_line
  expect_output_like 'scripts/(\./)?y.sqsh, of which enroot create has made it elsewhere, cannot be read: No such file'
  run -0 here "$data enroot remove -f pyxis_gone pyxis_copied; ls ../.local/share/berth/created"
  expect_equal "$output" ""
}

@test "--container-name=pyxis_NAME says that the container is called NAME" {
  run -0 alice srun -w n1 --container-image="$image" --container-name=mine true
  run alice srun -w n1 --container-name=pyxis_mine true
  expect_failure
  expect_one_error_line
  expect_output_like 'there is none of that name; the container that enroot calls so is mine'
}

@test "import of a file copies or converts it" {
  run -0 here 'berth import -o copy.sqsh ./x.sqsh; cmp x.sqsh copy.sqsh'
  expect_output_like '^sha256:[0-9a-f]{64}$'
  run -0 here 'enroot import -o of-enroot.sqsh x.sqsh; cmp x.sqsh of-enroot.sqsh'
  run here 'berth import -o copy.sqsh ./x.sqsh'
  expect_status 125
  expect_output_like 'copy.sqsh'
  run -0 here 'mkdir -p tree/bin; echo of-tar > tree/hello; tar -C tree -cf root.tar .; gzip -k root.tar
    for file in root.tar root.tar.gz; do berth import -q --force -o of-tar.sqsh ./$file > /dev/null &&
      unsquashfs -cat of-tar.sqsh hello || exit; done
    rm -f root.sqsh; enroot import root.tar.gz 2> /dev/null; unsquashfs -cat root.sqsh hello'
  expect_equal "$output" $'of-tar\nof-tar\nof-tar'
  run here 'echo nothing > no.sqsh; berth import -o copy2.sqsh ./no.sqsh'
  expect_status 125
  expect_output_like 'no.sqsh'
  run -1 here 'test -e copy2.sqsh'
  run -0 here 'berth import -o of-tree.sqsh ./tree; unsquashfs -cat of-tree.sqsh hello'
  expect_equal "$output" of-tar
  run here 'mkfifo pipe; berth import -o copy2.sqsh ./pipe'
  expect_status 125
  expect_output_like 'neither a regular file nor a directory'
}

@test "a limit of file sizes and a page of a proxy are told in words" {
  run here "ulimit -f 200; BERTH_STORE_PATH=\$PWD/store berth run $image true"
  expect_status 125
  expect_output_like 'File too large .*ulimit -f'
  run alice srun -w n1 --container-image="$faulty/page:latest" true
  expect_failure
  expect_one_error_line
  expect_output_like "not an answer of a registry: the registry $faulty sent a page.*: <html><title>Please log in"
}
