#!/usr/bin/env bats
# Two releases in one cluster, on one node after the other, and back: only in a box with BERTH_BOX_OTHER
# (`scripts/test upgrade`). n1 has this release and n2 the other one; a test that changes a node puts it back.
load ../slurm/helper

moving=$registry/debian:moving

setup() {
  set_release n1 own
  set_release n2 other
  in_home 'rm -rf runs over saved; mkdir saved'
}

teardown() {
  in_home 'touch over'
  cancel_everything
  for node in n1 n2; do
    alice srun -w "$node" bash -c 'for name in $(berth ps --json | jq -r ".containers[].name"); do
      berth rm --force "$name"; done' || true
  done
  expect_no_leftovers
}

# set_release NODE own|other: as a package manager replaces files, while what runs goes on.
set_release() {
  local folder=$state/nodes/$1/release file
  for file in berth berth-pull spank_berth.so; do
    cp "$state/lib/$2/$file" "$folder/$file.new"
    mv "$folder/$file.new" "$folder/$file"
  done
}

# As alice on a submit host with a release: by own|other CMD...
by() {
  local release=$1
  shift
  # shellcheck disable=SC2016
  root unshare --mount --propagation private \
    bash -c 'mount --bind "$1/lib/$2" /etc/berth-release; exec "$1/lib/enter_box" login-here "$1" alice "" "${@:3}"' \
    bash "$state" "$release" "$@"
}

# Makes the tag debian:moving mean what debian:$1 means.
move_tag() {
  local type='application/vnd.oci.image.manifest.v1+json' url=http://$registry/v2/debian/manifests
  curl -sf -H "Accept: $type" "$url/$1" | curl -sf -X PUT -H "Content-Type: $type" --data-binary @- "$url/moving"
}

a_task_runs() { [[ -e $state/home/alice/runs ]]; }

# start_step NODE OPTIONS...: a step that runs until the file `over` is there; its number is $step.
start_step() {
  rm -f "$state/home/alice/runs"
  alice srun -w "$1" --container-mounts=/home/alice "${@:2}" sh -c 'echo first > /opt/first; touch /home/alice/runs
    until [ -e /home/alice/over ]; do sleep 0.1; done; cat /etc/os-release > /dev/null' \
    > "$BATS_TEST_TMPDIR/step" 2>&1 3>&- &
  step=$!
  wait_until 30 a_task_runs
}

end_step() {
  in_home 'touch over'
  wait "$step" || fail "the step failed:" "$(cat "$BATS_TEST_TMPDIR/step")"
  in_home 'rm -f over runs'
}

sum_on() { by own srun -w "$1" sha256sum "${@:2}" | cut -d' ' -f1; }

@test "the nodes have two builds, and so have the submit hosts" {
  files=(/usr/bin/berth /usr/libexec/berth/berth-pull)
  expect_equal "$(sum_on n1 "${files[@]}")" "$(cd "$state/lib/own" && sha256sum berth berth-pull | cut -d' ' -f1)"
  expect_equal "$(sum_on n2 "${files[@]}")" "$(cd "$state/lib/other" && sha256sum berth berth-pull | cut -d' ' -f1)"
  expect_equal "$(by other sha256sum /usr/bin/berth)" "$(sha256sum < "$state/lib/other/berth" |
    sed 's|-|/usr/bin/berth|')"
  [[ $(sum_on n1 "${files[@]}") != "$(sum_on n2 "${files[@]}")" ]]
}

@test "srun and sbatch of each release run on nodes of each, and on both in one step" {
  digest=$(manifest_digest 12)
  for release in own other; do
    for nodes in n1 n2 n1,n2; do
      run -0 by "$release" srun -w "$nodes" --container-image="$image" --container-readonly --container-remap-root \
        --container-mounts=/tmp:/mnt/tmp sh -c 'id -u; test -d /mnt/tmp && ! touch /opt/x 2> /dev/null &&
          echo $BERTH_CONTAINER_DIGEST'
      expect_equal "$(sort -u <<< "$output")" $'0\n'"$digest"
    done
    run -0 by "$release" "$sbatch_wait" -w n2 -o batch.out --container-image="$image" --wrap \
      "echo \$BERTH_CONTAINER_DIGEST"
    run -0 alice tail -n 1 batch.out
    expect_equal "$output" "$digest"
    # The script's own srun is the batch node's.
    run -0 by "$release" "$sbatch_wait" -N2 -o batch.out --wrap \
      "srun --container-image=$image sh -c 'echo \$BERTH_CONTAINER_DIGEST'"
    run -0 alice sort -u batch.out
    expect_equal "$output" "$digest"
  done
}

@test "an environment file that one release's srun or sbatch read starts on nodes of each, and in one step of both" {
  in_home 'mkdir -p .config/berth/environments; cat > .config/berth/environments/both.toml' <<END
image = "$image"
mounts = ["/tmp:/mnt/tmp:ro"]
workdir = "/mnt/tmp"
[env]
FLAVOUR = "of the file"
END
  for release in own other; do
    for nodes in n1 n2 n1,n2; do
      run -0 by "$release" srun -w "$nodes" --container-environment=both sh -c 'pwd; echo $FLAVOUR; cat /srv/hello'
      expect_equal "$(sort -u <<< "$output")" $'/mnt/tmp\nhello from the image\nof the file'
      run -0 by "$release" "$sbatch_wait" -w "${nodes%%,*}" -o batch.out --container-environment=both --wrap 'pwd'
      run -0 alice tail -n 1 batch.out
      expect_equal "$output" /mnt/tmp
    done
  done
  in_home 'rm .config/berth/environments/both.toml'
}

asked_once() { (( $(count_since HEAD /v2/debian/manifests/moving) == 1 )); }

@test "nodes of two releases agree what a tag means, whichever release srun has" {
  for release in own other; do
    move_tag zstd
    before=$(manifest_digest moving)
    mark_log
    pid=$(root cat /run/slurmd.n2.pid)
    root kill -STOP "$pid"
    by "$release" env BERTH_SLURM_RESOLVE_TAGS=nodes srun -N2 --container-image="$moving" sh -c \
      'echo $BERTH_CONTAINER_DIGEST' > "$BATS_TEST_TMPDIR/out" 2> "$BATS_TEST_TMPDIR/errors" 3>&- &
    wait_until 20 asked_once || { root kill -CONT "$pid"; fail "n1 did not ask"; }
    move_tag tar
    root kill -CONT "$pid"
    wait $! || fail "$(cat "$BATS_TEST_TMPDIR/errors")"
    expect_equal "$(cat "$BATS_TEST_TMPDIR/out")" "$before"$'\n'"$before"
    output=$(cat "$BATS_TEST_TMPDIR/errors")
    expect_output_like "n2: .*this step runs $before, which node n1 found first"
  done
}

@test "a batch job that one release submitted runs what its tag meant, on a node of the other" {
  for release in own other; do
    node=n2
    [[ $release == own ]] || node=n1
    move_tag zstd
    before=$(manifest_digest moving)
    run -0 --separate-stderr by "$release" sbatch --hold --parsable -w "$node" -o frozen.out \
      --container-image="$moving" --wrap 'echo $BERTH_CONTAINER_DIGEST'
    job=$output
    move_tag tar
    root scontrol release "$job"
    wait_until 30 no_jobs
    expect_equal "$(alice tail -n 1 frozen.out)" "$before"
  done
}

# The container is served by the first release; the second one's steps and commands find it.
named_container_changes_from() {
  local first=$1 second=$2
  set_release n2 "$first"
  start_step n2 --container-image="$image" --container-name=keep
  set_release n2 "$second"
  run -0 alice srun -w n2 --container-name=keep:exec sh -c 'cat /opt/first; echo second > /opt/second; echo $IMAGE_VAR'
  expect_equal "$output" $'first\nfrom-image'
  run -0 alice srun -w n2 berth exec keep cat /opt/second
  expect_equal "$output" second
  run -0 alice srun -w n2 sh -c 'berth ps --json'
  expect_equal "$(jq -r '.containers[] | select(.name == "keep") | "\(.running) \(.pids | length > 0) \(.error)"' \
    <<< "$output")" "true true null"
  run alice srun -w n2 berth rm keep
  expect_failure
  expect_output_like "removing container keep: it runs"
  end_step
  # From the record of the first, by the second, and back.
  run -0 alice srun -w n2 --container-name=keep sh -c 'cat /opt/first /opt/second; echo third > /opt/third'
  expect_equal "$output" $'first\nsecond'
  set_release n2 "$first"
  run -0 alice srun -w n2 --container-name=keep cat /opt/third
  expect_equal "$output" third
  run -0 alice srun -w n2 berth save --force -o saved/keep.sqsh keep
  set_release n2 "$second"
  run -0 alice srun -w n2 --container-image=./saved/keep.sqsh sh -c 'cat /opt/third; echo $IMAGE_VAR'
  expect_equal "$output" $'third\nfrom-image'
  run -0 alice srun -w n2 berth rm keep
}

@test "a named container that the other release serves is joined, listed, started again and saved by this one" {
  named_container_changes_from other own
}

@test "a named container that this release serves is joined, listed, started again and saved by the other one" {
  named_container_changes_from own other
}

@test "a running named container of one release is ended by the other's rm --force" {
  for first in other own; do
    set_release n2 "$first"
    start_step n2 --container-image="$image" --container-name=keep
    set_release n2 "$([[ $first == own ]] && echo other || echo own)"
    run -0 alice srun -w n2 berth rm --force keep
    ! wait "$step" || fail "the step did not fail"
    expect_no_leftovers
  done
}

@test "a step whose node changes its release is joined by its number, goes on, and is saved at its end" {
  for first in other own; do
    second=$([[ $first == own ]] && echo other || echo own)
    set_release n2 "$first"
    start_step n2 --container-image="$image" --container-save=saved/step.sqsh
    name=$(root squeue --noheader --steps --format=%i)
    set_release n2 "$second"
    run -0 alice srun -w n2 --container-name="$name" cat /opt/first
    expect_equal "$output" first
    end_step
    run -0 alice srun -w n2 --container-image=./saved/step.sqsh sh -c 'cat /opt/first; echo $IMAGE_VAR'
    expect_equal "$output" $'first\nfrom-image'
    expect_nodes_up
  done
}

@test "a store that one release filled serves the other, which fetches no layer again, and both find it whole" {
  for first in other own; do
    second=$([[ $first == own ]] && echo other || echo own)
    forget_images
    set_release n2 "$first"
    run -0 alice srun -w n2 --container-image="$registry/debian:entry" true
    set_release n2 "$second"
    mark_log
    run -0 alice srun -w n2 --container-image="$registry/debian:entry" true
    run -0 alice srun -w n2 berth verify
    expect_output_like " 0 problems"
    run -0 alice srun -w n2 berth gc
    run -0 alice srun -w n2 berth images
    expect_output_like "debian:entry"
    set_release n2 "$first"
    run -0 alice srun -w n2 --container-image="$registry/debian:entry" true
    run -0 alice srun -w n2 berth verify
    expect_output_like " 0 problems"
    expect_equal "$(count_since GET /v2/debian/blobs/)" 0
    run -0 alice srun -w n2 berth rmi "$registry/debian:entry"
  done
}

@test "jobs that began with one release are cleaned up by the other's epilog" {
  for first in other own; do
    second=$([[ $first == own ]] && echo other || echo own)
    set_release n2 "$first"
    start_step n2 --container-image="$image"
    set_release n2 "$second"
    cancel_everything
    ! wait "$step" || fail "the step did not fail"
    expect_no_leftovers
    expect_nodes_up
  done
  # Their folder in /run is gone with their last job.
  wait_until 20 no_run_folder
}

no_run_folder() {
  local pid
  pid=$(root cat /run/slurmd.n2.pid) && ! root nsenter -t "$pid" -m test -e /run/berth/2001
}
