# Before the first test: the box is up, its registry holds the images, alice's stores the main one; what a test needs
# and lacks is a failure, never a skip.
# shellcheck shell=bash

setup_suite() {
  local repo
  repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  "$repo/scripts/slurm-in-a-box" status > /dev/null || "$repo/scripts/slurm-in-a-box" up
  "$repo/scripts/make-test-image"
  "$repo/scripts/slurm-in-a-box" run -u alice -- srun \
    -N2 --container-image="127.0.0.1:${BERTH_BOX_REGISTRY_PORT:-5000}/debian:12" true
}
