#!/usr/bin/env bats
# The command `enroot`, as scripts call it (docs/migration.md has the rows): import, create, start, exec, list, export,
# remove; containers of steps by their names pyxis_NAME; and Enroot's variables in steps.
load helper

# The name is a link, as the package berth-enroot has it.
setup_file() {
  root ln -sf berth /usr/bin/enroot
}

teardown_file() {
  root rm -f /usr/bin/enroot
  stop_podman
}

setup() {
  # shellcheck disable=SC2016
  in_home 'mkdir -p work; names=$(enroot list); [ -z "$names" ] || enroot remove -f $names; rm -rf work/*' \
    > /dev/null 2>&1
}

# In alice's folder `work`, where ENROOT_* of the caller do not count.
work() { in_home "cd work; $1"; }

uri() { echo "docker://$registry#debian:$1"; }

expect_columns() {
  [[ ${lines[0]} =~ ^NAME\ +PID\ +COMM\ +STATE\ +STARTED\ +TIME\ +MNTNS\ +USERNS\ +COMMAND$ ]] ||
    fail "the heading is ${lines[0]}"
}

@test "row 2: enroot import without -o writes NAME+TAG.sqsh, with -o the file, and replaces none" {
  run -0 --separate-stderr work "enroot import $(uri 12)"
  expect_equal "$output" ""
  run -0 work "ls; unsquashfs -s debian+12.sqsh | head -n 1"
  [[ $output == "debian+12.sqsh"$'\n'"Found a valid"* ]] || fail "$output"
  run -1 work "enroot import $(uri 12)"
  expect_output_like '^\[ERROR\] File already exists: /home/alice/work/debian\+12\.sqsh'
  run -0 work "ENROOT_FORCE_OVERRIDE=yes enroot import $(uri 12)"
  run -0 work "enroot import --output other.sqsh -a \$(uname -m) $(uri 12) && test -s other.sqsh"
  run -1 work "enroot import debian:12"
  expect_output_like 'docker://'
  run -0 work "enroot import -a aarch64 -o arm.sqsh $(uri multi) && unsquashfs -cat arm.sqsh platform"
  [[ ${lines[-1]} == arm64 ]] || fail "$output"
  run ! work "enroot import -a sparc64 -o s.sqsh $(uri multi)"
  expect_output_like 'no image for linux/sparc64 in it; there are: linux/arm64, linux/amd64'
  run -1 work "enroot load -a aarch64 $(uri multi)"
  expect_output_like '^\[ERROR\] --arch aarch64: a container is made for this node'
  run ! work "enroot import -o no.sqsh $(uri missing)"
  run -1 work "test -e no.sqsh"
}

@test "row 2: enroot import dockerd:// and podman:// take an image of a service" {
  start_podman
  run -0 work "DOCKER_HOST=unix://$podman_socket enroot import -o of-docker.sqsh dockerd://localhost/bare:latest"
  run -0 work "XDG_RUNTIME_DIR=$state/podman enroot import podman://localhost/bare"
  run -0 work 'for file in of-docker.sqsh localhost+bare.sqsh; do berth run ./$file /bare || exit; done'
  expect_equal "$output" $'bare\nbare'
}

@test "row 12: enroot create, start --root --rw --mount SRC:DST NAME, and what is written stays" {
  work "enroot import -o d.sqsh $(uri 12); mkdir data; echo there > data/x"
  run -0 work "enroot create -n train d.sqsh"
  expect_equal "$output" ""
  run -0 work "rm d.sqsh; enroot start --root --rw --mount \$PWD/data:/mnt/data train \
    sh -c 'id -u; cat /mnt/data/x; echo kept > /srv/new'"
  expect_equal "$output" $'0\nthere'
  run -0 work "enroot start train cat /srv/new"
  expect_equal "$output" kept
  run work "enroot start train sh -c 'touch /srv/no'"
  expect_failure
  expect_output_like 'Read-only file system'
  run -0 work "enroot start -m data:mnt/data -e A=1 -e OF=x train sh -c 'cat /mnt/data/x; echo \$A\$OF'"
  expect_equal "$output" $'there\n1x'
  run work "enroot start train sh -c 'exit 7'"
  expect_status 7
  run work "enroot start nothing true"
  expect_status 1
  expect_output_like '^\[ERROR\] No such file or directory'
}

@test "row 12: of the caller's variables those of Slurm and of -e get into a container" {
  work "enroot import -o d.sqsh $(uri 12)"
  run -0 work "export SECRET=1 LD_PRELOAD= PYTHONPATH=/x SLURM_PROCID=3 B=2; enroot start -e B d.sqsh env"
  grep -qx SLURM_PROCID=3 <<< "$output"
  grep -qx B=2 <<< "$output"
  ! grep -E '^(SECRET|PYTHONPATH)=' <<< "$output" || fail "$output"
}

@test "row 12: a squashfs file starts without a container, and keeps nothing" {
  work "enroot import -o d.sqsh $(uri 12)"
  run -0 work "enroot start --rw d.sqsh sh -c 'echo x > /srv/new; cat /srv/new'
    enroot start d.sqsh ls /srv; enroot list"
  expect_equal "$output" $'x\nhello'
  run -0 work "printf 'echo script \"\$1\"; exec \"\$@\"' > rc; enroot start --rc rc d.sqsh echo 'a b'"
  expect_equal "$output" $'script echo\na b'
}

@test "row 12: create refuses a name that is taken, and --force replaces it" {
  work "enroot import -o d.sqsh $(uri 12); enroot create d.sqsh; enroot start --rw d touch /srv/new"
  run -1 work "enroot create d.sqsh"
  expect_output_like '^\[ERROR\] File already exists: '
  run -0 work "enroot create --force d.sqsh; enroot start d ls /srv"
  expect_equal "$output" hello
  run -1 work "enroot create -n e missing.sqsh"
  run -0 work "enroot list"
  expect_equal "$output" d
}

@test "row 12: of two that create one name at once one wins, the other says so, and nothing else is left" {
  work "enroot import -o d.sqsh $(uri 12)"
  run -0 work 'for n in 1 2 3 4; do
      { code=0; enroot create -n both d.sqsh 2> said.$n || code=$?; echo $code > code.$n; } &
    done; wait; cat code.* | sort | xargs; cat said.*; enroot list; enroot remove -f both; enroot list'
  expect_equal "${lines[0]}" "0 1 1 1"
  for n in 1 2 3; do [[ ${lines[n]} == "[ERROR] "*both* ]] || fail "$output"; done
  expect_equal "${lines[*]:4}" both
  expect_equal "$(in_home 'find .local/share/berth /tmp/berth* -name "*both*" 2> /dev/null')" ""
}

@test "row 12: export writes what a container has become" {
  work "enroot import -o d.sqsh $(uri 12); enroot create d.sqsh; enroot start --rw d sh -c 'echo kept > /srv/new'"
  run -0 work "enroot export -o e.sqsh d; enroot start e.sqsh cat /srv/new"
  [[ $output == *kept ]] || fail "$output"
  run -1 work "enroot export --output e.sqsh d"
  expect_output_like '^\[ERROR\] File already exists: '
  run -0 work "enroot export -f -o e.sqsh d; enroot export d; ls"
}

@test "row 11: enroot list -f has the columns of Enroot, and enroot exec PID runs in that container" {
  work "enroot import -o d.sqsh $(uri 12); enroot create -n ray d.sqsh"
  work "enroot start --rw ray sh -c 'cd /srv; export INSIDE=yes; sleep 1000 & wait'" 3>&- &
  wait_until 20 work "enroot list -f | grep -q '^ray  *[0-9]'"
  run -0 work "enroot list -f"
  expect_columns
  [[ ${lines[1]} =~ ^ray\ +[0-9]+\ +sh\ +S[^\ ]*\ +[0-9:]+\ +[0-9:]+\ +[0-9]+\ +[0-9]+\ +sh\ -c ]] || fail "$output"
  run -0 work "pid=\$(enroot list -f | awk '\$1 == \"ray\" { print \$2 }'); enroot exec -e EXTRA=1 \$pid \
    sh -c 'ls hello; echo \$EXTRA; echo 2 > /srv/second'"
  expect_equal "$output" $'hello\n1'
  run -0 work "enroot start ray cat /srv/second"
  expect_equal "$output" 2
  run -1 work "enroot exec 999999999 true"
  expect_output_like '^\[ERROR\] Process not found: 999999999'
  run -1 work "enroot exec \$\$ true"
  expect_output_like 'is in no container'
  run -0 work "enroot remove -f ray; enroot list"
  expect_equal "$output" ""
  wait
}

@test "row 5: enroot list and enroot remove -f pyxis_NAME see the containers of steps" {
  # What other tests left.
  # shellcheck disable=SC2016
  alice srun -w n1 bash -c 'enroot remove -f $(enroot list) || true' > /dev/null 2>&1
  run -0 alice srun -w n1 --container-image="$image" --container-name=mlperf sh -c 'echo kept > /srv/new'
  run -0 alice srun -w n1 enroot list
  expect_equal "$output" pyxis_mlperf
  run -0 alice srun -w n1 enroot start pyxis_mlperf cat /srv/new
  expect_equal "$output" kept
  run -0 alice srun -w n1 bash -c 'if [[ "$(enroot list)" ]]; then enroot remove -f $(enroot list); fi'
  run -0 alice srun -w n1 enroot list
  expect_equal "$output" ""
  run -1 work "enroot remove -f pyxis_mlperf"
  expect_output_like '^\[ERROR\] No such file or directory'
}

@test "row 16: a prolog's script finds pyxis_JOB.STEP of a step while it runs, and can get into it" {
  alice srun -w n1 --container-image="$image" sleep 1000 3>&- &
  wait_until 30 in_home "enroot list | grep -q '^pyxis_[0-9]*\.0'"
  run -0 in_home "enroot list -f"
  expect_columns
  [[ ${lines[1]} =~ ^pyxis_[0-9]+\.0\ +[0-9]+\ +sleep\ .*sleep\ 1000$ ]] || fail "$output"
  run -0 in_home "pid=\$(enroot list -f | awk '/^pyxis_/ { print \$2 }'); enroot exec \$pid sh -c 'cat /srv/hello'"
  expect_equal "$output" "hello from the image"
  alice scancel -u alice
  wait || true
}

@test "row 27: enroot create -n pyxis_NAME makes what srun --container-name=NAME finds" {
  work "enroot import -o d.sqsh $(uri 12)"
  alice srun -w n1 enroot remove -f pyxis_made > /dev/null 2>&1 || true
  run -0 alice srun -w n1 bash -c 'cd work; enroot create -n pyxis_made d.sqsh; rm d.sqsh'
  run -0 alice srun -w n1 --container-name=made sh -c 'cat /srv/hello; echo 1 > /srv/new'
  expect_equal "$output" "hello from the image"
  run -0 alice srun -w n1 --container-name=made cat /srv/new
  expect_equal "$output" 1
  run -0 alice srun -w n1 enroot remove -f pyxis_made
}

@test "row 10: ENROOT_REMAP_ROOT, ENROOT_MOUNT_HOME and ENROOT_ROOTFS_WRITABLE of a job count in its steps" {
  run -0 alice srun -w n1 --export=ALL,ENROOT_REMAP_ROOT=yes --container-image="$image" id -u
  expect_equal "$output" 0
  run -0 alice srun -w n1 --export=ALL,ENROOT_REMAP_ROOT=yes --no-container-remap-root --container-image="$image" id -u
  expect_equal "$output" 2001
  run alice srun -w n1 --export=ALL,ENROOT_ROOTFS_WRITABLE=n --container-image="$image" touch /srv/new
  expect_failure
  expect_output_like 'Read-only file system'
  in_home 'echo mine > of_home'
  run -0 alice srun -w n1 --export=ALL,ENROOT_MOUNT_HOME=y --container-image="$image" cat /home/alice/of_home
  expect_equal "$output" mine
  run -0 alice srun -w n1 --export=ALL,ENROOT_REMAP_ROOT=yes id -u
  expect_equal "$output" 2001
}

@test "row 10: variables of Enroot that a step passes over are named in one line" {
  run -0 --separate-stderr alice srun -N2 --export=ALL,ENROOT_DATA_PATH=/x,ENROOT_CACHE_PATH=/y \
    --container-image="$image" true
  expect_equal "$(grep -c 'ENROOT_CACHE_PATH, ENROOT_DATA_PATH' <<< "$stderr")" 1
}

@test "enroot: batch and --conf run a configuration script, bundle says what to do instead" {
  work "enroot import -o d.sqsh $(uri 12); enroot create d.sqsh"
  work 'cat > conf << "END"
#!/usr/bin/enroot batch
#ENROOT_ROOTFS=d
#ENROOT_REMAP_ROOT=y
environ() { echo "FROM=$(echo conf)"; }
mounts() { echo "$PWD /mnt none bind"; }
rc() { id -u; echo $FROM "$@"; ls /mnt/conf; }
END'
  run -0 work "enroot batch conf a b"
  expect_equal "$output" $'0\nconf a b\n/mnt/conf'
  run -0 work "enroot start --conf conf d.sqsh a"
  expect_equal "$output" $'0\nconf a\n/mnt/conf'
  run -1 work "enroot bundle d.sqsh"
  expect_output_like 'enroot start'
  run -0 work "enroot version"
  expect_output_like '^4\.[0-9.]+\+berth\.'
}

@test "enroot: load makes a container of a registry's image, digest prints its digest, info the settings" {
  run -0 work "enroot load -n loaded $(uri 12); enroot start loaded cat /srv/hello; berth gc; enroot start loaded true"
  [[ $output == *"hello from the image"* ]] || fail "$output"
  run -0 work "enroot digest $(uri 12)"
  expect_equal "$output" "$(manifest_digest 12)"
  local image; image=$(uri multi)
  run -0 work "enroot digest $image; enroot digest --arch \$(uname -m) $image; enroot digest -a arm64 $image"
  [[ ${lines[0]} == sha256:* && ${lines[0]} == "${lines[1]}" && ${lines[2]} == sha256:* ]] || fail "$output"
  [[ ${lines[0]} != "${lines[2]}" ]] || fail "$output"
  run -0 work "ENROOT_DATA_PATH=\$PWD enroot info"
  expect_output_like 'ENROOT_DATA_PATH=/home/alice/work'
}

@test "enroot: ENROOT_DATA_PATH has containers of its own" {
  work "enroot import -o d.sqsh $(uri 12)"
  run -0 work "export ENROOT_DATA_PATH=\$PWD/data; enroot create -n own d.sqsh; enroot list; \
    enroot start --rw own sh -c 'echo 1 > /srv/new'; enroot start own cat /srv/new; enroot remove -f own; enroot list"
  expect_equal "$output" $'own\n1'
  run -0 work "ENROOT_DATA_PATH= enroot list"
  expect_equal "$output" ""
}
