# Before the first test: the box is up and holds the images; what a test needs and lacks is a failure, never a skip.
# shellcheck shell=bash

setup_suite() {
  local repo
  repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  "$repo/scripts/slurm-in-a-box" status > /dev/null || "$repo/scripts/slurm-in-a-box" up
  "$repo/scripts/make-test-image"
}
