#!/usr/bin/env bats
# ConstrainCores and task/affinity: tasks in a container are bound as without one, and so is their file server.
load site

setup_file() { site_up --cgroup --with cores; }

cpus='sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status'

@test "cores: tasks have the CPUs that they have without a container" {
  for options in "-n1 -c1" "-n2 -c1 --cpu-bind=cores" "-n1 -c2 --cpu-bind=none" "-n2 -c1 --cpu-bind=map_cpu:1,0"; do
    # shellcheck disable=SC2086
    plain=$(alice srun -w n1 --exact $options sh -c "$cpus" | sort)
    # shellcheck disable=SC2086
    run -0 contained --exact $options sh -c "$cpus"
    expect_equal "$(sort <<< "$output")" "$plain"
  done
}

@test "cores: the file server runs on the CPUs of its step alone" {
  in_home 'rm -f started'
  contained -n1 -c1 --exact --container-mounts=/home/alice sh -c "$cpus > /home/alice/started; sleep 600" \
    > /dev/null 2>&1 3>&- &
  wait_until 20 alice test -s started
  helper=$(berth_processes)
  expect_equal "$(sed -n 's/^Cpus_allowed_list:\t//p' "$(box_proc)/$helper/status")" "$(in_home 'cat started')"
  cancel_everything
  expect_no_leftovers
}
