# What scripts/test says while it runs.
# shellcheck shell=bash disable=SC2154,SC2034

bats_require_minimum_version 1.5.0

setup() {
  repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  work=$BATS_TEST_TMPDIR
  mkdir "$work/running"
  # shellcheck source=scripts/parts/counting.sh
  source "$repo/scripts/parts/counting.sh"
}

teardown() { end_watch; }

has_line() { grep -qxE "$1" <<< "$output" || { echo "no line '$1' in:" "$output"; return 1; }; }

@test "--list has each part with what it is, and which are asked for by name alone" {
  run -0 "$repo/scripts/test" --list
  has_line 'unit +the unit tests'
  has_line 'gpu +.* \(by name alone\)'
  # As the list of what is run.
  (( ${#lines[@]} > 15 ))
  has_line 'upgrade +.* \(each night\)'
  run -2 "$repo/scripts/test" no-such-part
  has_line "test: unknown part 'no-such-part'; scripts/test --list shows all"
}

@test "a part's beginning and end are told, and how far it is in between" {
  run -0 begin slurm
  has_line '== slurm begins \([0-9]+ s after the start\)'
  printf '1..4\nok 1 a\nnot ok 2 b in 3ms\n' > "$work/slurm.log"
  run -0 progress
  has_line '== at [0-9]+ s: slurm'
  has_line ' +slurm: 2 of 4, 1 failed'
  run -0 end slurm
  has_line '== slurm has ended after [0-9]+ s'
  run -0 progress
  has_line '== at [0-9]+ s: '
}

@test "a failure is told by its name while the part goes on, and once" {
  begin slurm > /dev/null
  printf '1..4\nok 1 a\n' > "$work/slurm.log"
  watch_over > "$work/said" 2>&1 3>&- & watcher=$!
  printf 'not ok 2 the one that fails\n' >> "$work/slurm.log"
  until grep -q 'the one that fails' "$work/said"; do sleep 0.2; done
  printf 'ok 3 c\nnot ok 4 another\n' >> "$work/slurm.log"
  until grep -q another "$work/said"; do sleep 0.2; done
  run -0 cat "$work/said"
  has_line 'failed: slurm: not ok 2 the one that fails'
  [[ $(grep -c 'not ok 2' <<< "$output") == 1 ]]
}

@test "make unit TAG=... has the files with such tests alone, and the folders that they include" {
  cd "$work"
  mkdir -p runtime/base
  touch runtime/base/text.hh
  printf '#include "runtime/base/text.hh"\nTEST_CASE("a", "[base][text]") {}\n' > a_test.cc
  printf 'TEST_CASE("b", "[base]") { auto b = [text] { return text; }; }\n' > b_test.cc
  run -0 "$repo/scripts/test-needs" text a_test.cc b_test.cc
  [[ $output == "a_test.cc runtime/base" ]]
  run -0 "$repo/scripts/test-needs" base a_test.cc b_test.cc
  [[ $output == "a_test.cc b_test.cc runtime/base" ]]
}

@test "several makes at once in one folder of a build change nothing that is there" {
  united() { make -s -C "$repo" BUILD="$work/build" UNITY=1 "$work/build/unity/runtime/"{base,plan,pull/image}/all.cc; }
  united
  before=$(stat -c '%i %y' "$work"/build/unity/runtime/{base,plan,pull/image}/all.cc)
  for _ in {1..6}; do
    makes=()
    for _ in {1..6}; do united & makes+=($!); done
    for make in "${makes[@]}"; do wait "$make"; done
  done
  [[ $(stat -c '%i %y' "$work"/build/unity/runtime/{base,plan,pull/image}/all.cc) == "$before" ]]
  run -0 find "$work/build/unity" -type f ! -name all.cc
  [[ -z $output ]]
}

@test "the workflow of a public forge runs each usual part, and each night the others" {
  local workflow=$repo/.github/workflows/test.yml
  parts() { "$repo/scripts/test" --list | grep "$@" | awk '{ print $1 }' | sort; }
  run -0 sed -n '/^        parts:/,/^    steps:/s/^          - //p' "$workflow"
  [[ $(tr ' ' '\n' <<< "$output" | sort) == $(parts -vE '\((by name alone|each night)\)$') ]]
  run -0 sed -n 's/^        part: \[\(.*\)\]$/\1/p' "$workflow"
  [[ $(tr -d ',' <<< "$output" | tr ' ' '\n' | sort) == $(parts '(each night)$') ]]
}
