# shellcheck shell=bash disable=SC2154
# What the parts of scripts/test count, and keep of what they print.

# What a part has come to, also from a part that runs in the background: add NAME PASSED FAILED SKIPPED.
add() {
  printf '== %s: %d passed, %d failed, %d skipped (%d s after the start)\n' "$1" "$2" "$3" "$4" "$SECONDS"
  echo "$2 $3 $4" >> "$work/counts"
}

# The part of a Catch2 summary line that counts test cases: catch_count LOG WORD.
catch_count() {
  sed -n "s/^test cases: .*| *\([0-9]*\) $2.*/\1/p" "$1" | tail -n 1
}

# Adds a Catch2 run up: count_catch NAME LOG EXIT_CODE. A runner that crashed or ran nothing is a failure.
count_catch() {
  local good bad
  good=$(sed -n 's/^All tests passed (.* in \([0-9]*\) test cases\{0,1\}).*/\1/p' "$2" | tail -n 1)
  [[ -n $good ]] || good=$(catch_count "$2" passed)
  bad=$(catch_count "$2" failed)
  good=${good:-0} bad=${bad:-0}
  if (( bad == 0 && ($3 != 0 || good == 0) )); then
    echo "== $1: the runner ended with code $3 and no test's failure"
    bad=1
  fi
  add "$1" "$good" "$bad" 0
}

# Adds a bats run up: count_bats NAME LOG EXIT_CODE. A test of the plan that did not report is a failure.
count_bats() {
  local plan good bad none
  plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$2" | head -n 1)
  none=$(grep -c '^ok .* # skip' "$2" || true)
  good=$(($(grep -c '^ok ' "$2" || true) - none))
  bad=$((${plan:-0} - good - none))
  if (( bad == 0 && ($3 != 0 || good == 0) )); then
    echo "== $1: bats ended with code $3 and no test's failure"
    bad=1
  fi
  add "$1" "$good" "$bad" "$none"
}

# Runs a command with its output shown and kept: logged LOG CMD...; prints nothing itself and returns the command's
# code.
logged() {
  local log=$1 code=0
  shift
  "$@" 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
  return "$code"
}

# bats with TAP, and of a test that fails the output of its last command.
tap() { bats --print-output-on-failure --tap "$@"; }

# Adds a run of a test program of Catch2 up: run_catch NAME CMD...
run_catch() {
  local name=$1 code=0
  shift
  logged "$work/$name.log" "$@" || code=$?
  count_catch "$name" "$work/$name.log" "$code"
}

# The beginning and the end of a part, for people and for watch_over: begin NAME, end NAME.
begin() {
  echo "== $1 begins ($SECONDS s after the start)"
  echo "$SECONDS" > "$work/running/$1"
}
end() {
  local began
  began=$(< "$work/running/$1") && rm -f "$work/running/$1"
  echo "== $1 has ended after $((SECONDS - began)) s"
}

# Which parts run, and how many tests of the plans in their logs have reported.
progress() {
  local names log plan
  names=$(find "$work/running" -type f -printf '%f, ')
  echo "== at $SECONDS s: ${names%, }"
  for log in "$work"/*.log; do
    [[ -e $log ]] || continue
    plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p;/^1\.\./q' "$log")
    [[ -z $plan ]] || awk -v plan="$plan" -v name="$(basename "$log" .log)" '
      /^ok /  { good++ }
      /^not ok / { bad++ }
      END {
        if (good + bad < plan)
          printf "     %s: %d of %d%s\n", name, good + bad, plan, bad ? ", " bad " failed" : ""
      }
      ' "$log"
  done
}

# Beside everything else: tells each failure within seconds, and every three quarters of a minute how far all are.
watch_over() {
  local told=$SECONDS
  trap - EXIT
  touch "$work/told"
  while sleep 3; do
    failed_names > "$work/failed"
    grep -Fxv -f "$work/told" "$work/failed" || true
    mv "$work/failed" "$work/told"
    if (( SECONDS - told >= 45 )); then
      progress
      told=$SECONDS
    fi
  done
}
end_watch() {
  [[ -n ${watcher:-} ]] || return 0
  kill "$watcher" 2> /dev/null || true
  wait "$watcher" 2> /dev/null || true
  watcher=
}

# The names of the tests that failed, so that the end of a long output has them. Catch2 puts a test's name between two
# lines of dashes, and a FAILED below.
failed_names() {
  [[ -z $(find "$work" -maxdepth 1 -name '*.log') ]] || awk '
    FNR == 1 { part = FILENAME; sub(/.*\//, "", part); sub(/\.log$/, "", part); name = "" }
    /^not ok / { print "failed: " part ": " $0 }
    before ~ /^-----*$/ && !/^-|^\.|^$|\.cc:[0-9]+$/ { name = $0 }
    /: FAILED:$/ && name != "" { print "failed: " part ": " name; name = "" }
    { before = $0 }' "$work"/*.log
}
