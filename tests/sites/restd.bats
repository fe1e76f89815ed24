#!/usr/bin/env bats
# slurmrestd: a job that is submitted by HTTP says by a variable what it wants; it has no options of plugins.
load site

setup_file() { site_up --with contain; }

@test "restd: a job that is submitted by slurmrestd runs in the image that its environment names" {
  in_home "rm -f out; cat > request.json" <<END
{"script": "#!/bin/bash\nonly-in-image\necho \$SLURM_JOB_NAME\n",
 "job": {"name": "by-http", "current_working_directory": "/home/alice", "standard_output": "/home/alice/out",
  "environment": {"PATH": "/usr/bin:/bin", "BERTH_CONTAINER_IMAGE": "$image"}}}
END
  run -0 in_home "{ printf 'POST /slurm/v0.0.38/job/submit HTTP/1.1\r\nContent-Type: application/json\r\n'
    printf 'Connection: close\r\nContent-Length: %s\r\n\r\n' \$(wc -c < request.json); cat request.json; } |
    /usr/sbin/slurmrestd -s v0.0.38 -a rest_auth/local"
  expect_output_like '"job_id": [1-9]'
  wait_until 30 no_jobs
  expect_equal "$(in_home 'cat out')" $'only in the image\nby-http'
  expect_no_leftovers
}
