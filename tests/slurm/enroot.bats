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

# Removes the containers of every scope.
# shellcheck disable=SC2016
remove_all='for scope in $(berth ps --all --json | jq -r ".containers[].scope"); do
  berth rm --force --scope "$scope" --all || true; done'

setup() {
  in_home "mkdir -p work; $remove_all; rm -rf work/*" > /dev/null 2>&1
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

@test "enroot: ENROOT_DATA_PATH is a scope: by its text, wherever it is, a name is another container" {
  work "enroot import -o d.sqsh $(uri 12)"
  # shellcheck disable=SC2016
  run -0 work 'for path in one /nowhere/two ~/work/one; do
      export ENROOT_DATA_PATH=$path
      [[ $path == ~/work/one ]] || enroot create -n x d.sqsh || exit
      enroot start --rw x sh -c "cat /srv/of; echo $path >> /srv/of" || exit
      enroot list
    done 2> /dev/null; ls; unset ENROOT_DATA_PATH; enroot list; berth ps --json | jq -c .containers'
  expect_equal "$output" $'x\nx\none\nx\nd.sqsh\n[]'
  # What is to be seen of all of them, and removed.
  # shellcheck disable=SC2016
  run -0 work 'berth ps --all --json | jq -r ".containers[] | [.name, .data_path, .scope] | join(\" \")" | sort
    berth ps -a | grep "^x .* /nowhere/two " > /dev/null; enroot create -n x d.sqsh; berth ps -a | grep -c "  enroot "'
  [[ ${lines[0]} =~ ^x\ /home/alice/work/one\ enroot-[0-9a-f]{16}$ ]] || fail "$output"
  [[ ${lines[1]} =~ ^x\ /nowhere/two\ enroot-[0-9a-f]{16}$ ]] || fail "$output"
  expect_equal "${lines[2]}" 1
  run -0 work 'berth rm --scope /nowhere/two/ x; ENROOT_DATA_PATH=/nowhere/two enroot list
    ENROOT_DATA_PATH=one enroot create -n y d.sqsh; ENROOT_DATA_PATH=one enroot remove -f x
    ENROOT_DATA_PATH=one enroot list; enroot list'
  expect_equal "$output" $'y\nx'
  run -0 work 'berth rm --scope ~/work/one --all; berth ps --all --json | jq -r ".containers[].scope"
    berth rm --scope enroot x; berth ps --all --json | jq -c .containers'
  expect_equal "$output" $'enroot\n[]'
  run work 'berth rm --scope /nowhere/two x'
  expect_status 125
  expect_output_like 'there is no container on this node; berth ps --all lists'
  run work 'berth rm --scope ../locks x'
  expect_status 125
  expect_output_like 'there is no container on this node; berth ps --all lists'
  # A list of names that has come out empty removes nothing.
  for none in '' '--scope enroot' '--all' '--scope enroot --all x'; do
    run work "berth rm $none"
    expect_status 125
    expect_output_like 'write the names of the containers'
  done
}

@test "enroot: what an earlier release has made in ENROOT_DATA_PATH itself is found, started and removed" {
  work "enroot import -o d.sqsh $(uri 12); BERTH_DATA_PATH=\$PWD/data/berth enroot create -n old d.sqsh"
  # shellcheck disable=SC2016
  run -0 work 'export ENROOT_DATA_PATH=$PWD/data; enroot list; enroot start --rw old touch /srv/new
    enroot create -n new d.sqsh; enroot start old ls /srv/new; enroot list
    enroot remove -f old; enroot list; ls data/berth'
  expect_equal "$output" $'old\n/srv/new\nnew\nold\nnew\nlocks'
}

# Alice's on n1; those of the machine where she calls it are others.
all_on_n1() { alice srun -w n1 berth ps --all --json | jq -r '.containers[] | [.name, .data_path] | join(" ")' | sort; }
no_container_on_n1() { [[ -z $(all_on_n1) ]]; }

@test "enroot: with ENROOT_DATA_PATH a list has what was made with it; steps share names, as with Pyxis" {
  alice srun -w n1 bash -c "$remove_all"
  with() { alice srun -w n1 --export="ALL,ENROOT_DATA_PATH=$1" "${@:2}" 2> /dev/null; }
  run -0 alice srun -w n1 --container-image="$image" --container-name=plain true
  run -0 with /a --container-image="$image" --container-name=shared sh -c 'echo of-a > /srv/new'
  run -0 with /b --container-name=shared cat /srv/new
  expect_equal "$output" of-a
  run -0 with /a enroot list
  expect_equal "$output" pyxis_shared
  run -0 with /b enroot list
  expect_equal "$output" ""
  run -0 alice srun -w n1 enroot list
  expect_equal "$output" $'pyxis_plain\npyxis_shared'
  # By name it is there, for those whose path is the one that the site had.
  run -0 with /b enroot start pyxis_shared cat /srv/new
  expect_equal "$output" of-a
  alice srun -w n1 enroot remove -f pyxis_plain pyxis_shared
}

@test "container_scope data_path: steps see the names of their ENROOT_DATA_PATH" {
  alice srun -w n1 bash -c "$remove_all"
  scoped() { alice env BERTH_DEFAULTS_CONTAINER_SCOPE=data_path srun -w n1 "$@"; }
  with() { scoped --export="ALL,ENROOT_DATA_PATH=$1" --container-name=fixed "${@:2}"; }
  run -0 --separate-stderr with /a --container-image="$image" sh -c 'echo of-a > /srv/new'
  expect_equal "$stderr" ""
  run with /b cat /srv/new
  expect_failure
  expect_output_like 'container fixed: there is none of that name'
  run -0 with /b --container-image="$image" sh -c 'test ! -e /srv/new && echo of-b > /srv/new'
  run -0 with /a//. cat /srv/new
  expect_equal "$output" of-a
  run scoped --container-name=fixed true
  expect_failure
  run -0 alice srun -w n1 berth ps
  expect_output_like 'SCOPE +PIDS'
  expect_output_like 'fixed .* /a '
  expect_output_like 'fixed .* /b '
  run -0 scoped --export=ALL,ENROOT_DATA_PATH=/b enroot list
  expect_equal "$output" pyxis_fixed
  run -0 scoped --export=ALL,ENROOT_DATA_PATH=/c enroot list
  expect_equal "$output" ""
  run -0 scoped --export=ALL,ENROOT_DATA_PATH=/b enroot remove -f pyxis_fixed
  run -0 alice srun -w n1 berth rm --scope /a fixed
  run -0 alice srun -w n1 berth ps --all --json
  expect_equal "$(jq -c .containers <<< "$output")" "[]"
}

# bats test_tags=cgroup
@test "enroot: with a path for each job a fixed name is a container of the job's own, and goes with the job" {
  work "enroot import -o d.sqsh $(uri 12)"
  alice srun -w n1 bash -c "$remove_all"
  in_home 'cd work; rm -f first second go; cat > own.sh' << 'END'
#!/bin/bash
export ENROOT_DATA_PATH=/tmp/enroot-$SLURM_JOB_ID/data
srun --container-image="$IMAGE" true
enroot create -n fixed d.sqsh || exit
enroot start --rw fixed sh -c 'test ! -e /srv/of && echo mine > /srv/of' || exit
touch "$1"
until test -e "$2"; do sleep 0.1; done
enroot list
enroot start fixed cat /srv/of
[[ $1 == first ]] || enroot remove -f $(enroot list)
END
  own() { in_home "cd work; IMAGE=$image sbatch --parsable -w n1 -n1 -o $1.out own.sh $1 $2"; }
  first=$(own first go)
  wait_until 30 in_home 'test -e work/first'
  own second first
  wait_until 30 in_home 'test -e work/second'
  only_first() { [[ $(all_on_n1) == "fixed /tmp/enroot-$first/data" ]]; }
  wait_until 30 only_first
  in_home 'touch work/go'
  wait_until 30 no_jobs
  expect_equal "$(in_home 'cat work/first.out work/second.out' | grep -v '^berth: ')" $'fixed\nmine\nfixed\nmine'
  wait_until 30 no_container_on_n1
  # Where no step of the job had a container, what tells that it has ended is its cgroup, to whoever looks next.
  in_home 'cd work; grep -v ^srun own.sh > alone.sh; sed -i "1a grep -c /job_ /proc/self/cgroup > in-cgroup" alone.sh'
  run -0 in_home "cd work; $sbatch_wait -w n1 -n1 -o third.out alone.sh first first"
  alice srun -w n1 berth gc > /dev/null
  if [[ $(in_home 'cat work/in-cgroup') == 0 ]]; then
    [[ $(all_on_n1) == "fixed /tmp/enroot-"*/data ]] || fail "$(all_on_n1)"
    alice srun -w n1 berth rm --scope "$(all_on_n1 | cut -d ' ' -f 2)" --all
  fi
  expect_equal "$(all_on_n1)" ""
}
