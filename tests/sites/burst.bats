#!/usr/bin/env bats
# An array of many jobs that begin at the same moment.
load site

setup_file() { site_up; }

# 32 jobs at a time have a CPU.
@test "burst: an array of 500 jobs with one image: all run, one pull for each store, nothing is left" {
  forget_images
  mark_log
  in_home "rm -rf array; mkdir array; sbatch -Q --parsable --array=1-500 -n1 -o array/%a --container-image=$image \
    --wrap 'only-in-image' 2> /dev/null"
  wait_until 200 no_jobs
  expect_equal "$(in_home 'cat array/*' | without_progress | sort | uniq -c | xargs)" "500 only in the image"
  # Its tag was asked for once, by sbatch.
  expect_equal "$(count_since HEAD '/v2/debian/manifests/12')" 1
  for digest in $(layer_digests 12); do
    expect_equal "$digest $(count_since GET "/v2/debian/blobs/$digest")" "$digest 2"
  done
  expect_no_leftovers
  expect_nodes_up
}
