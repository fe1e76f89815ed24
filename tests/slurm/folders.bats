#!/usr/bin/env bats
# The folders that root makes for users: in /run, in memory, and below /var/lib/berth.
# bats file_tags=cgroup
load helper

setup() {
  cancel_everything
  wait_until 10 no_folders_in_run
}

teardown() {
  cancel_everything
  root chmod 755 "$state/nodes/n1/store"
  root chmod 1777 "$state/nodes/login/store"
}

# In the mount namespace of a node's slurmd, where the plugin mounts: on_node n1 CMD...
on_node() {
  local pid
  pid=$(root cat "/run/slurmd.$1.pid")
  root nsenter --target "$pid" --mount -- "${@:2}"
}

has_folder() { on_node n1 test -e "/run/berth/$1"; }
no_folder() { ! has_folder "$1"; }
no_folders_in_run() { no_folder 2001 && no_folder 2002; }

# An allocation of a user on n1 that lasts until it is cancelled; prints its number.
allocation_of() {
  "$1" salloc --no-shell -w n1 2>&1 | sed -n 's/^salloc: Granted job allocation //p'
}

@test "a user's folder in /run is a tmpfs with limits, and goes with the user's last job on the node" {
  first=$(allocation_of alice) second=$(allocation_of alice)
  run -0 alice srun --jobid="$first" --container-image="$image" true
  run -0 on_node n1 findmnt -n -o FSTYPE,OPTIONS /run/berth/2001
  expect_output_like '^tmpfs +rw,nosuid,nodev,noexec,.*size=4096k,nr_inodes=4096'
  expect_equal \
    "$(on_node n1 stat -c '%a %u' /run/berth /run/berth/jobs /run/berth/2001 /run/berth/2001/steps | xargs)" \
    "755 0 700 0 755 0 700 2001"
  run -0 alice srun --jobid="$second" --container-image="$image" true
  root scancel "$first"
  wait_until 10 eval "[[ \$(on_node n1 ls /run/berth/jobs) == 2001.$second.n1 ]]"
  has_folder 2001
  run -0 alice srun --jobid="$second" --container-image="$image" true
  root scancel "$second"
  wait_until 10 no_folder 2001
  expect_equal "$(on_node n1 ls /run/berth/jobs)" ""
  expect_nodes_up
}

@test "a user who fills the folder in /run stops nobody else, and his own next job runs" {
  in_home 'cat > fill.sh; chmod 755 fill.sh' <<'END_OF_SCRIPT'
#!/bin/bash
cd /run/berth/2001/steps || exit 2
case $1 in
  bytes) head -c 200M /dev/zero > all ;;
  inodes) for ((i = 0; i < 30000; ++i)); do : > "$i" || exit 1; done ;;
esac
END_OF_SCRIPT
  for what in bytes inodes; do
    job=$(allocation_of alice)
    run -0 alice srun --jobid="$job" --container-image="$image" true
    run alice srun --jobid="$job" ./fill.sh "$what"
    expect_status 1
    expect_output_like 'No space left on device'
    run -0 on_node n1 sh -c 'head -c 1M /dev/zero > /run/probe && rm /run/probe'
    run -0 bob srun -w n1 --container-image="$image" true
    if [[ $what == inodes ]]; then
      run alice srun --jobid="$job" --container-image="$image" true
      expect_failure
      expect_one_error_line
      expect_output_like 'making the socket /run/berth/2001/steps/.*: No space left on device'
    fi
    root scancel "$job"
    wait_until 10 no_folder 2001
    run -0 alice srun -w n1 --container-image="$image" true
    expect_nodes_up
  done
  in_home 'rm fill.sh'
}

@test "jobs of one user that start and end at once all have their folder, and leave none" {
  in_home 'cat > at-once.sh; chmod 755 at-once.sh' <<'END_OF_SCRIPT'
#!/bin/bash
for round in 1 2 3; do
  srun -Q -w n1 --container-image="$1" true || echo "round $round failed"
done
END_OF_SCRIPT
  run -0 in_home "seq 6 | xargs -P 6 -I{} ./at-once.sh $image"
  expect_equal "$output" ""
  wait_until 10 no_folder 2001
  expect_nodes_up
  in_home 'rm at-once.sh'
}

# What bob could put there on the node, in this order.
in_the_way='case $1 in folder) mkdir "$2" ;; link) ln -s /home/bob "$2" ;; file) : > "$2" ;; esac'

@test "nobody can take the name of another user's folder" {
  root bash -c "rm -rf $state/nodes/n1/store/2001*"
  for kind in folder link file; do
    for name in /var/lib/berth/2001 /var/lib/berth/2001.containers /var/lib/berth/2001.counters /run/berth/2001; do
      run bob srun -w n1 sh -c "$in_the_way" sh "$kind" "$name"
      expect_failure
    done
  done
  run -0 alice srun -w n1 --container-image="$image" true
  expect_equal "$(cd "$state/nodes/n1/store" && stat -c '%n %a %u:%g %F' 2001* | xargs)" \
    "2001 700 2001:2001 directory 2001.containers 700 2001:2001 directory 2001.counters 700 2001:2001 directory"
  run -0 alice srun -w n1 --container-image="$image" --container-name=squat true
  run -0 alice srun -w n1 berth rm squat
  # A folder that its user has changed stays so.
  run -0 alice srun -w n1 chmod 750 /var/lib/berth/2001
  run -0 alice srun -w n1 --container-image="$image" true
  expect_equal "$(stat -c %a "$state/nodes/n1/store/2001")" 750
  expect_nodes_up
}

@test "a folder that another user took where all may write is one line, and others' steps run" {
  root chmod 1777 "$state/nodes/n1/store"
  for kind in folder link file; do
    root bash -c "rm -rf $state/nodes/n1/store/2001*"
    run -0 bob srun -w n1 sh -c "$in_the_way" sh "$kind" /var/lib/berth/2001
    run alice srun -w n1 --container-image="$image" true
    expect_failure
    expect_one_error_line
    expect_output_like 'store /var/lib/berth/2001: (belongs to uid 2002|is a symlink|is not a directory)'
    run -0 bob srun -w n1 --container-image="$image" true
    expect_nodes_up
  done
  root rm -rf "$state/nodes/n1/store/2001"
  run -0 alice srun -w n1 --container-image="$image" true
}

@test "outside of jobs the home has the images until the folder is there, which is said once" {
  root bash -c "chmod 755 $state/nodes/login/store; rm -rf $state/nodes/login/store/2001"
  in_home 'rm -rf .cache/berth'
  run -0 --separate-stderr alice berth images
  expect_equal "$stderr" "berth: images are kept in /home/alice/.cache/berth, since there is no /var/lib/berth/2001 \
here, which your first job in a container makes on its node; BERTH_STORE_PATH names another folder"
  run -0 --separate-stderr alice berth pull --quiet "$image"
  expect_equal "$stderr" ""
  run -0 --separate-stderr alice berth run "$image" true
  expect_equal "$stderr" ""
  [[ -d $state/home/alice/.cache/berth/images ]]
  # From then on it is the node's.
  root install -d -o 2001 -g 2001 -m 700 "$state/nodes/login/store/2001"
  run -0 --separate-stderr alice berth images --json
  expect_equal "$(jq -c .images <<< "$output")" "[]"
  in_home 'rm -rf .cache/berth'
}

@test "what root runs without an allocation leaves neither a folder nor a mark" {
  run -0 root srun --no-allocate -w n1 --container-image="$image" only-in-image
  expect_output_like "only in the image"
  wait_until 10 no_folder 0
  expect_equal "$(on_node n1 ls /run/berth/jobs)" ""
  expect_equal "$(on_node n1 ls /run/berth.steps)" ""
  expect_nodes_up
}
