# What every file of this folder begins with: a box with what a site configures. Loaded by `load site`.
# shellcheck shell=bash disable=SC2154
load ../slurm/helper

# For setup_file: a box by the arguments of `slurm-in-a-box up`, its registry with the main image, and that image in the
# stores of both nodes.
site_up() {
  "$box" up "$@" >&3 2>&1 || return 1
  "$repo/scripts/make-test-image" --main >&3 2>&1 || return 1
  alice srun -N2 --container-image="$image" true
}

# The node's first GPU is another user's, so that the numbers of a step are not those of the node.
occupy_first_gpu() {
  bob srun -w n1 --gres=gpu:h100:1 sleep 3600 > /dev/null 2>&1 3>&- &
  wait_until 20 bash -c "'$box' run -- squeue -h -u bob -t R | grep -q ."
}

with_gpus() { in_home "export NVIDIA_VISIBLE_DEVICES=all; $*"; }

# Slurm's own word for a setting.
slurm_says() { root scontrol show config | sed -nE "s/^$1 *= *//p"; }

step_over() { ! kill -0 "$1" 2> /dev/null; }

# In the mount namespace of n1's slurmd: on_node CMD...
on_node() { root nsenter --target "$(root cat /run/slurmd.n1.pid)" --mount -- "$@"; }

# What jobs leave on n1: folders, mounts, marks, links, groups.
# shellcheck disable=SC2016
seen_on_node() {
  on_node sh -c 'for folder in /run/berth /run/berth/jobs /run/berth.jobs /run/berth.steps; do
    echo "$folder" $(ls -A "$folder" 2> /dev/null); done; grep -c " /run/berth" /proc/self/mounts'
  job_groups
}

same_as_before() { [[ $(seen_on_node) == "$before" ]]; }

# After twenty jobs nothing is there that was not there before, and no container of scope job.
expect_twenty_jobs_leave_nothing() {
  local number before
  run -0 contained true
  wait_until 20 eval '[[ -z $(on_node sh -c "ls -A /run/berth.steps 2> /dev/null") ]]'
  wait_until 20 no_node_is_completing
  before=$(seen_on_node)
  for number in {1..20}; do
    case $((number % 4)) in
      0) run -0 contained only-in-image ;;
      1) run -0 contained --container-name="kept$number" only-in-image ;;
      2) run -0 in_home "BERTH_DEFAULTS_CONTAINER_SCOPE=job srun -w n1 --container-name=mine \
           --container-image=$image only-in-image" ;;
      3) run -0 in_home "salloc -Q -w n1 bash -c 'srun --container-image=$image true & \
           srun --overlap --container-image=$image only-in-image; wait'" ;;
    esac
    expect_output_like "only in the image"
  done
  wait_until 20 same_as_before || fail "before: $before" "now: $(seen_on_node)"
  wait_until 20 no_containers_of_jobs || fail "$(containers_of_jobs)"
  expect_no_leftovers
  expect_nodes_up
}

# A container of scope job is there for the steps of its job, twice, and for nobody after it.
expect_scope_job_goes_with_the_job() {
  for _ in 1 2; do
    run -0 in_home "BERTH_DEFAULTS_CONTAINER_SCOPE=job salloc -Q -w n1 bash -c '
      srun --container-name=mine --container-image=$image sh -c \"echo kept > /opt/kept\"
      srun --container-name=mine cat /opt/kept
      ls -d $state/nodes/n1/store/*.containers/job* > /dev/null && echo there'"
    expect_output_like kept
    wait_until 20 no_containers_of_jobs || fail "$(containers_of_jobs)"
  done
  expect_no_leftovers
  expect_nodes_up
}

containers_of_jobs() { root bash -c "ls -d $state/nodes/n1/store/*.containers/job* 2> /dev/null || true"; }
no_containers_of_jobs() { [[ -z $(containers_of_jobs) ]]; }
