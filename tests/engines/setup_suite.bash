# As for the other tests of the box.
# shellcheck shell=bash source=tests/slurm/setup_suite.bash
source "$(dirname "${BASH_SOURCE[0]}")/../slurm/setup_suite.bash"
