#!/usr/bin/env bats
# --[no-]container-mount-home.
load helper

setup_file() {
  in_home 'mkdir -p in; echo content > in/x'
}

@test "--container-mount-home brings the home, --no-container-mount-home does not" {
  run -0 contained --container-mount-home sh -c 'cat $HOME/in/x; cat /home/alice/in/x'
  expect_equal "$output" $'content\ncontent'
  run ! contained --no-container-mount-home test -e /home/alice/in/x
}

@test "with --container-remap-root the home is /root, and writable" {
  run -0 contained --container-mount-home --container-remap-root sh -c \
    'grep -c " /root " /proc/self/mountinfo; cat ~/in/x; touch ~/in/y'
  expect_equal "$output" $'1\ncontent'
  run -0 alice stat -c %U in/y
  expect_equal "$output" alice
}

@test "without it nothing is mounted at /root or at the home, and both are there" {
  for option in --container-remap-root --no-container-remap-root; do
    run -0 contained --no-container-mount-home $option sh -c \
      '! grep -E " (/root|/home/alice) " /proc/self/mountinfo && test -d "$HOME"'
  done
}

@test "defaults.mount_home of the site holds until an option says otherwise" {
  with_site_lines '[defaults]' 'mount_home = true'
  run -0 contained cat /home/alice/in/x
  run ! contained --no-container-mount-home test -e /home/alice/in/x
  restore_site
}

@test "a home that is missing on the node is one line" {
  run in_home "HOME=/not/there srun -w n1 --container-image=$image --container-mount-home true"
  expect_failure
  expect_one_error_line
  expect_output_like "/not/there"
}

@test "both forms of the option together are refused" {
  run contained --container-mount-home --no-container-mount-home true
  expect_failure
  expect_output_like "contradict"
}
