# shellcheck shell=bash disable=SC2154
# Parts of scripts/test with the system of Debian 13, here and in a guest.

# Whether Debian 13 is installed for guests, or can be.
has_trixie() {
  local mirror
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | sort -u |
    head -n 1)
  [[ -e ${BERTH_GUEST_DIR:-/var/cache/berth-guest}/trixie/root.img ]] ||
    curl -sSfIL --max-time 60 -o /dev/null "${mirror%/}/dists/trixie/Release" ||
    { echo "test platforms: there is no Debian 13 in $mirror"; return 1; }
}

# run_in_trixie NAME here|run TESTS ARGUMENTS OF UP...: these tests of the suite, in a box of that system.
run_in_trixie() {
  local name=$1 where=$2 tests=$3 code=0
  shift 3
  in_box platforms scripts/guest "$where" trixie scripts/slurm-in-a-box up "$@" || code=$?
  # shellcheck disable=SC2086
  (( code )) || in_box platforms logged "$work/$name.log" scripts/guest "$where" trixie bats --tap --timing $tests ||
    code=$?
  touch "$work/$name.log"
  count_bats "$name" "$work/$name.log" "$code"
  in_box platforms scripts/guest "$where" trixie scripts/slurm-in-a-box down
}

# Debian 13 with its Slurm 24.11, on this machine's kernel. The long form is `scripts/test matrix`.
run_platforms() {
  local smoke='tests/slurm/run.bats tests/slurm/sbatch.bats tests/slurm/signals.bats tests/slurm/exec.bats'
  # shellcheck disable=SC2086
  has_trixie || { add platforms 0 0 "$(bats --count $smoke)"; return; }
  export BERTH_GUEST_STATE=$box_dir-platforms
  if in_box platforms scripts/guest here trixie; then
    run_in_trixie slurm-24.11 here "$smoke"
  else
    add slurm-24.11 0 1 0
  fi
  end_platforms
}

# The same in a virtual machine with its own kernel, systemd and cgroup v2: seven tests, each of which takes half a
# minute on a busy machine.
run_guest() {
  local tests='--filter-tags guest tests/slurm/exec.bats tests/slurm/gpu.bats tests/slurm/gpu_join.bats'
  tests+=' tests/slurm/lifecycle.bats'
  # shellcheck disable=SC2086
  has_trixie || { add guest 0 0 "$(bats --count $tests)"; return; }
  export BERTH_GUEST_STATE=$box_dir-platforms BERTH_GUEST_MEMORY=3072
  if scripts/guest up trixie; then
    run_in_trixie guest run "$tests" --cgroup
  else
    add guest 0 1 0
  fi
  end_platforms
}

# Of a run that was ended, too.
end_platforms() {
  export BERTH_GUEST_STATE=$box_dir-platforms
  [[ -e $BERTH_GUEST_STATE ]] || return 0
  scripts/guest down trixie
  [[ ! -e $BERTH_GUEST_STATE/trixie/here ]] || in_box platforms scripts/guest here trixie scripts/slurm-in-a-box down
  rm -rf --one-file-system "$BERTH_GUEST_STATE"
}
