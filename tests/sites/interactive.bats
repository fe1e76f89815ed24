#!/usr/bin/env bats
# LaunchParameters=use_interactive_step: salloc starts the user's shell as a step on the first node.
load site

setup_file() { site_up --cgroup --with contain --with interactive; }

# As alice, salloc in a terminal, into which the standard input is typed.
in_terminal() {
  script -qec "stty rows 40 cols 100; '$box' run -u alice -- $*" /dev/null
}

@test "interactive: salloc --container-image gives a shell in the container, on the node, with a terminal" {
  run in_terminal "salloc -Q -N2 --container-image=$image" <<'END'
only-in-image
echo "on $(hostname)"
tty
stty size
exit 5
END
  expect_status 5
  expect_output_like "only in the image"
  expect_output_like "on n1"
  expect_output_like "/dev/pts/[0-9]"
  expect_output_like "40 100"
  expect_no_leftovers
  expect_nodes_up
}

@test "interactive: salloc alone gives a shell on the node, whose steps may have containers" {
  run -0 in_terminal "salloc -Q -N2" <<END
test ! -e /usr/local/bin/only-in-image && echo out''side
srun --overlap -N2 --container-image=$image only-in-image < /dev/null
exit
END
  expect_output_like "outside"
  expect_equal "$(grep -c 'only in the image' <<< "$output")" 2
  expect_no_leftovers
}

@test "interactive: in the container's shell srun works where slurm.client_in_container is set" {
  run -0 in_terminal "env BERTH_SLURM_CLIENT_IN_CONTAINER=1 salloc -Q -N2 --container-image=$image" <<END
srun --overlap -N2 --container-image=$image sh -c 'echo step of "\$SLURM_NODEID"' < /dev/null
exit
END
  expect_output_like "step of 0"
  expect_output_like "step of 1"
  expect_no_leftovers
}
