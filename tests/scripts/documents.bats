# Whether the pages' commands are those that tests/slurm/documents.bats types.
# shellcheck shell=bash

bats_require_minimum_version 1.5.0

setup() {
  repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  mapfile -t pages < <(cd "$repo/tests/documents" && printf '%s\n' *.toml | sed '/^common/d; s/\.toml$//')
}

# A copy of the checkout, as far as it matters.
copy() {
  copy=$BATS_TEST_TMPDIR/copy
  mkdir -p "$copy/tests"
  cp -r "$repo/README.md" "$repo/docs" "$copy"
  cp -r "$repo/tests/documents" "$copy/tests"
}
check() { python3 -B "$copy/tests/documents/typed.py" check "$@"; }
is_output() { [[ $output == "$1" ]] || { printf 'expected: %s\ngot:      %s\n' "$1" "$output" >&2; return 1; }; }
has_line() { grep -qxF -- "$1" <<< "$output" || { printf 'no line: %s\nin: %s\n' "$1" "$output" >&2; return 1; }; }

@test "each command of the pages is typed by a test, or a reason says why not" {
  for page in README usage ssh environments shared-stores pilot rollback migration-{apptainer,charliecloud,shifter}; do
    grep -qx "$page" <(printf '%s\n' "${pages[@]}")
  done
  run -0 python3 -B "$repo/tests/documents/typed.py" check "${pages[@]}"
  is_output ""
  # And there is a test for each table.
  for page in "${pages[@]}"; do
    grep -qE "types(_with_apptainer)? $page( |;|\$)" "$repo/tests/slurm/documents.bats" ||
      { echo "no test types $page" >&2; false; }
  done
}

@test "a command that no test types is a fault, in a block, in a table and in a sentence" {
  copy
  # shellcheck disable=SC2016
  printf '%s\n' '' '    srun --new' '' '| a | write |' '|---|---|' '| b | `./x` |' '' 'Or `berth' 'new x`.' \
    >> "$copy/docs/ssh.md"
  last=$(wc -l < "$copy/docs/ssh.md")
  run -1 check ssh
  is_output "ssh.md:$((last - 7)): no test types it, and no reason is given: srun --new
ssh.md:$((last - 3)): no test types it, and no reason is given: ./x
ssh.md:$((last - 1)): no test types it, and no reason is given: berth new x"
}

@test "a command that a page has twice is typed twice" {
  copy
  sed -i 's/^    squeue --me .*/&\n&/' "$copy/docs/ssh.md"
  run -1 check ssh
  has_line "ssh.md:9: no test types it, and no reason is given: \
squeue --me                              # the job's number"
}

@test "what a test types and no page has any more is a fault, so are words that the page does not say" {
  copy
  sed -i '/^    squeue --me/d' "$copy/docs/ssh.md"
  sed -i 's/Pyxis does the work, and Berth/It does the work, and Berth/' "$copy/docs/rollback.md"
  run -1 check ssh rollback
  is_output "ssh.md has no such command any more: squeue --me                              # the job's number
rollback.md does not say: Pyxis does the work, and Berth nothing"
}

@test "a command is typed: continued lines, here-documents, answers, and a file from a block" {
  copy
  cat > "$copy/docs/page.md" <<'END'
    make --version | \
      head -n 1
    cat << EOF
    a  here-document
    EOF
    read -p 'word: ' word && echo "got $word"

Then

    all:
    	echo of a file
END
  cat > "$copy/tests/documents/page.toml" <<'END'
[[step]]
at = "checkout"
do = "cd $(mktemp -d)"
[[step]]
at = "checkout"
line = """make --version | \\
  head -n 1"""
out = '\AGNU Make.*\Z'
[[step]]
at = "checkout"
line = "cat << EOF\na  here-document\nEOF"
out = '\Aa  here-document\Z'
[[step]]
at = "checkout"
line = "read -p 'word: ' word && echo \"got $word\""
answers = [["^word: $", "something\n"]]
out = "^got something$"
[[step]]
at = "checkout"
line = "all:"
file = "Makefile"
[[step]]
at = "checkout"
do = "make -s"
out = '\Aof a file\Z'
END
  run -0 check page
  run -0 python3 -B "$copy/tests/documents/typed.py" type /nowhere 127.0.0.1:1 page
  is_output "page.md: 4 commands typed, 0 not"
  # Another output, another exit code, and what is asked for and never said.
  for change in 's/got something/got another/' 's/document.Z/text\\Z/' 's/something\\n"/x\\n"/' \
    's/^do = "make -s"/do = "false"/' 's/^do = "make -s"/do = "read -p asking:"/'; do
    sed "$change" "$copy/tests/documents/page.toml" > "$copy/tests/documents/changed.toml"
    cp "$copy/docs/page.md" "$copy/docs/changed.md"
    BERTH_DOCUMENTS_PATIENCE=2 run -1 python3 -B "$copy/tests/documents/typed.py" type /nowhere 127.0.0.1:1 changed
  done
  has_line 'no @@(\d+)@@  within 2 s after:'
}

@test "docs/programs.md is what the table of programs says" {
  run -0 python3 -B "$repo/tests/programs/table.py" page
  diff <(printf '%s\n' "$output") "$repo/docs/programs.md"
}

@test "docs/apptainer-tests.md is what the tables of Apptainer's cases say" {
  run -0 python3 -B "$repo/tests/apptainer/table.py"
  diff <(printf '%s\n' "$output") "$repo/docs/apptainer-tests.md"
}
