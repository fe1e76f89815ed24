#!/usr/bin/env bats
# bats file_tags=cgroup
# The main job: a command in a container, on real nodes, with its exit code, streams and identity.
load helper

@test "four tasks on two nodes run in the image, with one pull a node" {
  forget_images
  mark_log
  run -0 --separate-stderr alice srun -N2 -n4 --container-image="$image" grep PRETTY /etc/os-release
  expect_equal "$(grep -c '^PRETTY_NAME="Debian GNU/Linux 12' <<< "$output")" 4
  expect_equal "${#lines[@]}" 4
  for digest in $(layer_digests 12); do
    expect_equal "$digest $(count_since GET "/v2/debian/blobs/$digest")" "$digest 2"
  done
}

@test "row 3: the options of Pyxis together, as scripts write them" {
  in_home 'mkdir -p data; echo of the node > data/x'
  # shellcheck disable=SC2016
  run -0 alice env OF_JOB=job srun -w n1 --container-image="$registry#debian:12" --container-name=row3 \
    --container-mounts=/home/alice/data:/data:ro,/tmp:/mnt/tmp --container-workdir=/data --container-env=OF_JOB \
    --container-writable --container-remap-root --no-container-mount-home \
    sh -c 'pwd; cat x; id -u; echo "$OF_JOB"
      touch /opt/row3 && test -d /mnt/tmp && ! touch x 2> /dev/null && test ! -e /home/alice'
  expect_equal "$output" $'/data\nof the node\n0\njob'
  run -0 alice srun -w n1 --container-name=row3 ls /opt/row3
  alice srun -w n1 berth rm row3
  alice rm -r data
}

@test "steps that start at once on one node pull once" {
  forget_images
  mark_log
  in_home "for i in 1 2 3 4; do srun -w n1 --container-image=$image cat /srv/hello & done; wait" \
    > "$BATS_TEST_TMPDIR/out"
  expect_equal "$(grep -c 'hello from the image' "$BATS_TEST_TMPDIR/out")" 4
  for digest in $(layer_digests 12); do
    expect_equal "$digest $(count_since GET "/v2/debian/blobs/$digest")" "$digest 1"
  done
}

@test "the command's exit code is srun's, as without a container" {
  for code in 0 1 42 255; do
    run contained sh -c "exit $code"
    expect_status "$code"
  done
}

@test "a task that dies of a signal gives the code that it gives without a container" {
  for signal in KILL TERM SEGV; do
    run alice srun sh -c "kill -$signal \$\$"
    plain=$status
    run contained sh -c "kill -$signal \$\$"
    expect_status "$plain"
  done
}

@test "stdin, stdout and stderr are the caller's" {
  run -0 --separate-stderr in_home "echo ping | srun --container-image=$image sh -c 'cat; echo problem >&2'"
  expect_equal "$output" ping
  expect_equal "$stderr" problem
}

@test "a mebibyte goes through stdin and stdout unchanged" {
  run -0 in_home "head -c 1048576 /dev/urandom > blob; srun --container-image=$image cat < blob | cmp - blob; rm blob"
}

@test "the tasks of a step share one container, another step has its own" {
  show='echo $(readlink /proc/self/ns/user) $(readlink /proc/self/ns/mnt)'
  # The first container is there until the others have been looked at: the number of a namespace that has ended may come
  # again.
  in_home 'rm -f seen'
  contained -n4 --container-mounts=/home/alice sh -c "$show; until test -e /home/alice/seen; do sleep 0.1; done" \
    > "$BATS_TEST_TMPDIR/out" 3>&- &
  four_lines() { (( $(wc -l < "$BATS_TEST_TMPDIR/out") == 4 )); }
  wait_until 20 four_lines
  expect_equal "$(sort -u "$BATS_TEST_TMPDIR/out" | wc -l)" 1
  first=$(head -n 1 "$BATS_TEST_TMPDIR/out")
  run -0 contained sh -c "$show"
  [[ $output != "$first" ]]
  run -0 alice srun -w n1 sh -c "$show"
  [[ $output != "$first" ]]
  alice touch seen
  wait $!
}

@test "sixteen tasks start" {
  run -0 contained -n16 sh -c 'echo task $SLURM_PROCID'
  expect_equal "$(sort -u <<< "$output" | wc -l)" 16
}

@test "no_new_privs is set in every task" {
  run -0 contained -n2 grep NoNewPrivs /proc/self/status
  expect_equal "$(tr -d '[:blank:]' <<< "$output" | sort | uniq -c | xargs)" "2 NoNewPrivs:1"
}

@test "no capability is left to a task" {
  run -0 contained grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status
  run ! grep -vE '0000000000000000$' <<< "$output"
}

@test "files of the image belong to the caller, and so do the task's ids and groups" {
  run -0 contained stat -c '%u:%g' /etc/os-release /usr/bin/bash /srv
  expect_equal "$(sort -u <<< "$output")" 2001:2001
  run -0 contained id -u
  expect_equal "$output" 2001
  run -0 contained id -un
  expect_equal "$output" alice
}

@test "every mount is nosuid, and none but the devices takes device files" {
  run -0 contained cat /proc/self/mounts
  expect_equal "$(grep -vE '^\S+ \S+ \S+ (\S+,)?nosuid(,\S+)? ' <<< "$output")" ""
  # By the numbers of memory devices and terminals (admin-guide/devices.txt of Linux). devpts has nothing but terminals,
  # and /dev/null also hides files of /proc.
  run -0 contained sh -c 'while read -r _ target _ options _; do
      case ,$options, in *,nodev,*) ;; *) stat -c "%n %t:%T" "$target" ;; esac
    done < /proc/self/mounts'
  local usual='^/dev/[a-z]+ (1:[35789]|5:[02])$|^/proc/[a-z-]+ 1:3$|^/dev/pts 0:0$'
  expect_equal "$(grep -vE "$usual" <<< "$output")" ""
  expect_output_like '/dev/null 1:3'
}

@test "the layers are merged: whiteout, opaque directory, hard and symbolic links" {
  run -0 contained sh -c 'test ! -e /opt/old && ls /opt/replaced'
  expect_equal "$output" above
  run -0 contained sh -c \
    'stat -c %i /opt/links/first /opt/links/second | sort -u | wc -l; cat /opt/links/relative /opt/links/absolute'
  expect_equal "$output" $'1\ntwo names\ntwo names'
}

@test "the usual system mounts are there" {
  run -0 contained sh -c \
    'test -d /proc/self && test -d /sys/kernel && echo x > /dev/null && echo x > /dev/shm/x &&
      echo x > /tmp/x && test -d /run'
  run -0 contained cat /etc/hosts
  expect_equal "$output" "$(root cat /etc/hosts)"
  run -0 contained cat /etc/hostname
  expect_equal "$output" "$(root cat /etc/hostname)"
  run -0 contained cat /etc/resolv.conf
  expect_equal "$output" "$(root cat /etc/resolv.conf)"
}

@test "two users run side by side, each from a store of their own" {
  run -0 --separate-stderr bob srun -w n1 --container-image="$image" id -un
  expect_equal "$output" bob
  run -0 contained id -un
  expect_equal "$output" alice
}

@test "a job without a container is left alone" {
  run -0 alice srun -N2 true
  run -0 alice srun sh -c 'id -un; pwd'
  expect_equal "$output" $'alice\n/home/alice'
}

@test "the berth program is on everybody's path" {
  run -0 alice berth version
  run -0 bob berth version
}

@test "berth doctor finds nothing wrong on a node of the box" {
  run -0 alice berth doctor
  [[ $output != *FAILED* ]]
  release=$(root sinfo --version)
  expect_output_like "ok +Slurm +Slurm ${release##* }"
}

@test "a command gets no descriptor of its caller but the standard streams and that of its MPI launcher" {
  # A pull that takes a second on a busy machine would be told of.
  alice berth pull --quiet "$image"
  run -0 alice bash -c \
    "exec 5< /etc/hostname 7< /dev/zero 9> held;
      PMI_FD=7 berth run $image sh -c 'ls /proc/self/fd; readlink /proc/self/fd/7' | xargs"
  # ls reads the directory as 3.
  expect_equal "$output" "0 1 2 3 7 /dev/zero"
}

@test "a named container that goes on holds no lock of whoever started it" {
  run -0 alice bash -c "
    (flock 9; exec berth run --name=locked $image sleep 2) 9> held & first=\$!
    until berth exec locked true; do sleep 0.1; done 2> /dev/null
    berth exec locked sleep 20 & second=\$!
    wait \$first
    flock -n held echo free
    kill \$second
    wait \$second || berth rm --force locked"
  expect_equal "$output" free
}
