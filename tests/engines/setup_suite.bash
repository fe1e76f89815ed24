# As for the other tests of the box, with the one image that these use.
# shellcheck shell=bash

setup_suite() {
  local repo
  repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  "$repo/scripts/slurm-in-a-box" status > /dev/null || "$repo/scripts/slurm-in-a-box" up
  "$repo/scripts/make-test-image" --main
}
