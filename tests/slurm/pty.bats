#!/usr/bin/env bats
# bats file_tags=cgroup
# srun --pty: a terminal inside the container.
load helper

# Runs srun --pty CMD... in a terminal of 40 x 100 as alice, with standard input typed into it.
in_terminal() {
  script -qec "stty rows 40 cols 100; '$box' run -u alice -- srun -w n1 --pty $*" /dev/null
}

@test "srun --pty bash gives an interactive shell with a terminal, and its exit code" {
  run in_terminal "--container-image=$image bash --norc" <<'END'
tty
stty size
id -u
only-in-image
exit 3
END
  expect_status 3
  expect_output_like "/dev/pts/[0-9]+"
  expect_output_like "40 100"
  expect_output_like "only in the image"
}

@test "the terminal can be opened inside" {
  run -0 in_terminal "--container-image=$image sh -c 'test -t 0 && test -t 1 && echo through-tty > /dev/tty'" \
    < /dev/null
  expect_output_like "through-tty"
}

@test "job control works as without a container" {
  run in_terminal "--container-image=$image bash --norc -i" <<'END'
sleep 60 &
jobs
kill %1
exit 0
END
  [[ $output != *"no job control"* ]]
  expect_output_like "sleep 60"
}

@test "Ctrl-C in the terminal interrupts the command, not the shell" {
  run in_terminal "--container-image=$image bash --norc" < <(sleep 2; echo 'sleep 50'; sleep 1; printf '\003'; sleep \
    1; echo 'echo still-here'; echo 'exit 4')
  expect_status 4
  expect_output_like "still-here"
}
