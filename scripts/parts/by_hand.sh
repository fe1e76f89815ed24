# shellcheck shell=bash disable=SC2154
# Parts of scripts/test that are asked for by name: for hardware, other releases, or hours.

# Unit and kernel tests once more, with each sanitizer; then steps in a box with the first.
run_sanitize() {
  local sanitizer build kind
  export BERTH_TEST_SLOWNESS=${BERTH_TEST_SLOWNESS:-3}
  for sanitizer in address,undefined thread; do
    build=build-${sanitizer/,/-} kind=-${sanitizer/,/-}
    # It maps more than a machine has, and where the kernel counts that, a program that has run for long cannot fork.
    if [[ $sanitizer == thread && $(< /proc/sys/vm/overcommit_memory) != 1 ]]; then
      echo "sanitize: the tests with ThreadSanitizer need sysctl vm.overcommit_memory=1"
      add "$build" 0 1 0
      continue
    fi
    # As little work for the compiler as can be.
    make -s -j"$(nproc)" BUILD="$build" SAN="$sanitizer" UNITY=1 OPTIMIZE=1 "$build/tests/unit" \
      "$build/tests/kernel" || { add "$build" 0 1 0; continue; }
    # A sanitizer makes system calls of its own, and ends the program where one of them fails.
    add "kernel$kind: without every_call_test.cc" 0 0 "$(grep -c '"\[kernel\]' tests/kernel/every_call_test.cc)"
    run_catch "unit$kind" "$build/tests/unit"
    run_kernel "$build" "$kind"
    # A report changes the exit code of its process, which may be one that is killed or not asked.
    if grep -E 'Sanitizer: |runtime error: ' "$work"/*"$kind.log"; then add "reports$kind" 0 1 0; fi
  done
}

# The plugin in slurmstepd, and the helpers of steps, with AddressSanitizer and UBSan: what most steps do. Not where
# tasks call srun, which has not the sanitizer's library as its first one.
run_sanitize_slurm() {
  local code=0 name=slurm-address-undefined folder
  folder=$(in_box sanitize printenv BERTH_BOX_DIR)
  in_box sanitize scripts/slurm-in-a-box down &&
    BERTH_BOX_SANITIZED=build-address-undefined in_box sanitize scripts/slurm-in-a-box up --cgroup || code=$?
  (( code )) || in_box sanitize logged "$work/$name.log" tap --timing tests/sanitized \
    tests/slurm/{run,entrypoint,name,save,signals,early}.bats || code=$?
  touch "$work/$name.log"
  count_bats "$name" "$work/$name.log" "$code"
  if cat "$folder"/log/sanitizer/* | tr -d '\0' | grep .; then add "reports-$name" 0 1 0; fi
  in_box sanitize scripts/slurm-in-a-box down
}

# On this machine's NVIDIA GPU, which it must have.
run_gpu() {
  local code=0 as=(with_fuse "$ordinary_uid")
  (( EUID == 0 )) || as=(env BERTH_MUST_RUN=1)
  [[ -n $built ]] || make -s -j"$(nproc)" gpu-tests || code=$?
  (( code )) || logged "$work/gpu.log" "${as[@]}" "$BUILD/tests/gpu" || code=$?
  touch "$work/gpu.log"
  count_catch gpu "$work/gpu.log" "$code"
}

# Steps of a real Slurm with this machine's GPU, where device cgroups keep it from those that have none.
run_gpu_slurm() {
  local code=0
  make -s -j"$(nproc)" gpu-tests || code=$?
  (( code )) || { in_box gpu-slurm scripts/slurm-in-a-box down &&
    in_box gpu-slurm scripts/slurm-in-a-box up --nodes 1 --cgroup --with own-gpus &&
    in_box gpu-slurm scripts/make-test-image --main; } || code=$?
  (( code )) || in_box gpu-slurm logged "$work/gpu-slurm.log" tap --timing tests/gpu || code=$?
  touch "$work/gpu-slurm.log"
  count_bats gpu-slurm "$work/gpu-slurm.log" "$code"
  in_box gpu-slurm scripts/slurm-in-a-box down
}

# The pages of `berth report`, as chromium shows them.
run_pages() {
  local code=0
  scripts/install-deps --pages || code=$?
  (( code )) || logged "$work/pages.log" python3 tests/pages/pages.py "$BUILD" || code=$?
  touch "$work/pages.log"
  count_bats pages "$work/pages.log" "$code"
}

# The folder of a build of another release: BERTH_TEST_OTHER is that, a folder of `make install DESTDIR=`, or a commit
# or tag, which is built once and kept. Without it, the newest tag that is an ancestor of this commit; before the first
# release the commit of a week before this one.
other_build() {
  local other=${BERTH_TEST_OTHER:-} commit folder week
  week=$(($(git log -1 --format=%ct HEAD) - 7 * 24 * 3600))
  [[ $other ]] || other=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2> /dev/null) ||
    other=$(git rev-list -1 --before="$week" HEAD)
  [[ $other ]] ||
    { echo "test upgrade: set BERTH_TEST_OTHER to a build, installation or commit of another release" >&2; return 1; }
  echo "test upgrade: the other release is $other" >&2
  if [[ -d $other ]]; then (cd "$other" && pwd); return; fi
  commit=$(git rev-parse --verify --quiet "$other^{commit}") ||
    { echo "test upgrade: BERTH_TEST_OTHER=$other is neither a folder nor a commit" >&2; return 1; }
  folder=${BERTH_TEST_CACHE:-/var/cache/berth-test}/release-$commit
  if [[ ! -e $folder/built ]]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    git archive "$commit" | tar -C "$folder" -x
    env -u BUILD -u PCH -u UNITY make -C "$folder" -s -j"$(nproc)" all >&2
    touch "$folder/built"
  fi
  echo "$folder/build"
}

# An OCI image in which Berth is built (.ci/image), of Debian's packages alone, and a program that was.
run_image() {
  local code=0
  scripts/install-deps --image || code=$?
  (( code )) || logged "$work/image.log" tap tests/image || code=$?
  touch "$work/image.log"
  count_bats image "$work/image.log" "$code"
}

# Two releases in one cluster (tests/upgrade).
run_upgrade() {
  local code=0 other
  other=$(other_build) || code=$?
  (( code )) || { in_box upgrade scripts/slurm-in-a-box down &&
    BERTH_BOX_OTHER=$other in_box upgrade scripts/slurm-in-a-box up; } || code=$?
  (( code )) || in_box upgrade logged "$work/upgrade.log" tap --timing tests/upgrade || code=$?
  touch "$work/upgrade.log"
  count_bats upgrade "$work/upgrade.log" "$code"
  in_box upgrade scripts/slurm-in-a-box down
}

# A box with each of what sites configure (slurm-in-a-box up --with), each file of tests/sites one. What the
# distribution's Slurm lacks, tag `newer`, is tested instead where BERTH_BOX_SLURM names another one.
run_sites() {
  local code=0 tags='!newer'
  [[ -z ${BERTH_BOX_SLURM:-} ]] || tags=newer
  scripts/install-deps --sites || code=$?
  (( code )) || in_box sites logged "$work/sites.log" tap --timing --filter-tags "$tags" tests/sites || code=$?
  touch "$work/sites.log"
  count_bats sites "$work/sites.log" "$code"
  in_box sites scripts/slurm-in-a-box down
}

# What runs each night: a thousand starts without a leak, two hundred kills whose victims were alive
# (tests/soak/soak.py), five hundred steps with mistakes, and the races. STARTS and KILLS are other numbers.
run_soak() {
  local code=0 good=1
  in_box soak scripts/slurm-in-a-box down && in_box soak scripts/slurm-in-a-box up --cgroup && \
    in_box soak scripts/make-test-image --main || code=$?
  (( code )) || in_box soak logged "$work/soak.log" make -s soak || code=$?
  (( code )) || BERTH_TEST_MISTAKES=500 in_box soak tap --filter 'many steps with mistakes' tests/slurm ||
    code=$?
  in_box soak scripts/slurm-in-a-box down
  (( code == 0 )) || good=0
  add soak "$good" "$((1 - good))" 0
  # A hundred thousand tries of each race, of which CI makes a few.
  run_catch races with_fuse "$ordinary_uid" "$BUILD/tests/kernel" '[races]'
}

# Pyxis's own tests, of a copy that PYXIS_TESTS names; docs/pyxis-tests.md has those that are not run.
run_pyxis() {
  local code=0
  in_box pyxis scripts/slurm-in-a-box down && in_box pyxis scripts/slurm-in-a-box up --cgroup || code=$?
  (( code )) || in_box pyxis logged "$work/pyxis.log" tests/pyxis/run "${PYXIS_TESTS:-}" || code=$?
  touch "$work/pyxis.log"
  count_bats pyxis "$work/pyxis.log" "$code"
  in_box pyxis scripts/slurm-in-a-box down
}

# The commands `apptainer` and `singularity`, and all cases of Apptainer's own tests (docs/apptainer-tests.md).
run_apptainer() {
  local code=0
  in_box apptainer scripts/slurm-in-a-box down && in_box apptainer scripts/slurm-in-a-box up || code=$?
  (( code )) || in_box apptainer logged "$work/apptainer.log" tap --timing tests/slurm/apptainer.bats || code=$?
  touch "$work/apptainer.log"
  count_bats apptainer "$work/apptainer.log" "$code"
  (( code )) || in_box apptainer logged "$work/apptainer-cases.log" python3 -B tests/apptainer/run.py || code=$?
  touch "$work/apptainer-cases.log"
  count_bats apptainer-cases "$work/apptainer-cases.log" "$code"
  in_box apptainer scripts/slurm-in-a-box down
}
