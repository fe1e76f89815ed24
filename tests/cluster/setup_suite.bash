# The box of eight nodes is not left behind.
# shellcheck shell=bash
setup_suite() { :; }

teardown_suite() {
  "$(dirname "${BASH_SOURCE[0]}")/../../scripts/slurm-in-a-box" down
}
