#!/usr/bin/env bats
# BERTH_LOG=debug for a step: what its programs write on the step's standard error, and what they never write.
load helper
load sharing

asking=127.0.0.1:$((${BERTH_BOX_REGISTRY_PORT:-5000} + 997))

setup_file() {
  python3 -B "$repo/tests/registry/challenging.py" "${asking##*:}" 3>&- > "$BATS_FILE_TMPDIR/asking.log" 2> /dev/null &
  echo $! > "$BATS_FILE_TMPDIR/asking.pid"
  wait_until 60 curl -s -o /dev/null "http://$asking/v2/"
}

# Other tests count what is in alice's store.
teardown_file() {
  kill "$(cat "$BATS_FILE_TMPDIR/asking.pid")"
  in_home "berth rmi $asking/private; berth rmi $asking/basic:latest" > /dev/null 2>&1 || true
}

teardown() {
  restore_site
  cancel_after_failure
  in_home 'rm -rf .docker .config/enroot/.credentials log'
}

# The lines of a part: part NAME
part() { grep -E "berth(: n[0-9])?: debug [0-9T:.Z-]+ berth[a-z -]*\[[0-9]+\] $1: " <<< "$output" || true; }

expect_part() {
  [[ -n $(part "$1") ]] || fail "no line of the part $1:" "$output"
}

@test "BERTH_LOG=debug: each node tells what it decided, and a step without it tells nothing" {
  forget_images
  run -0 in_home "BERTH_LOG=debug srun -N2 --container-image=$image cat /srv/hello"
  local name
  for name in step image pull registry plan start "file server"; do expect_part "$name"; done
  [[ $(part step) == *"berth: n1: debug "* && $(part step) == *"berth: n2: debug "* ]] || fail "$output"
  [[ $output == *"hello from the image"* ]] || fail "$output"
  run -0 contained cat /srv/hello
  expect_equal "$output" "hello from the image"
}

@test "BERTH_LOG: another value ends a step in one line" {
  run in_home "BERTH_LOG=1 srun -w n1 --container-image=$image true"
  expect_failure
  grep -q "BERTH_LOG=1: write debug, or off" <<< "$output" || fail "$output"
  expect_one_error_line
  run -0 in_home "BERTH_LOG=off srun -w n1 --container-image=$image true"
  expect_equal "$output" ""
}

@test "a named container's start is in the log, and no step waits for its helper" {
  run -0 in_home "salloc -Q -w n1 sh -c 'BERTH_LOG=debug srun --container-image=$image --container-name=logged true
    srun --container-name=logged true'"
  grep -qE "berth helper\[[0-9]+\] start: overlay took|berth step\[[0-9]+\] start: overlay took" <<< "$output" ||
    fail "$output"
}

# Secrets in every place from which Berth reads some: a login, of which docker's file has the base64 form, a token, a
# variable of the job and of the image, a word of the command, and the step's own secret.
@test "hostile: no login, token, password, secret of the step or value of a variable is in the log" {
  share_on
  in_home "mkdir -p .docker && cat > .docker/config.json" \
    <<< "{\"auths\":{\"$asking\":{\"auth\":\"$(printf 'good:pw-good' | base64)\"}}}"
  # shellcheck disable=SC2016
  in_home "export BERTH_LOG=debug AWS_SECRET_ACCESS_KEY=pl4nted-aws OWN_SECRET=pl4nted-own
    srun -N2 --container-image=$asking/private --container-env=OWN_SECRET --container-mounts=/tmp:/mnt /bare \
      pl4nted-word > log 2>&1
    srun -N2 --container-image=$asking/basic:latest /bare pl4nted-word >> log 2>&1
    berth pull $asking/private >> log 2>&1
    berth run -e OTHER=pl4nted-env $asking/private /bare pl4nted-word >> log 2>&1; true"
  output=$(in_home 'cat log')
  local name
  for name in step image pull registry start; do expect_part "$name"; done
  grep -q 'with the login of /home/alice/.docker/config.json' <<< "$output" || fail "$output"
  ! grep -E "pl4nted|pw-good|$(printf 'good:pw-good' | base64)|t0k3n|Bearer [a-z0-9]|Basic [A-Za-z0-9]" \
    <<< "$output" || fail "a secret is in the log"
  # The step's secret is a word of 32 hexadecimal digits or more; digests begin with sha256:.
  ! part '[a-z ]+' | sed -E 's/sha256:[0-9a-f]{64}//g' | grep -E '[0-9a-f]{32}' || fail "a secret is in the log"
}
