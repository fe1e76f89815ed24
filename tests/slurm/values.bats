#!/usr/bin/env bats
# bats file_tags=cgroup
# Values of options that no shell has expanded, as in #SBATCH lines: ~/ is the home, %j and its like stand for the job,
# variables are refused. And what is often written in another way than it is meant.
# shellcheck disable=SC2016,SC2088
load helper

setup_file() {
  in_home "rm -rf values; mkdir -p values/d values/saved 'values/\$(d)'; echo of-d > values/d/x
    echo of-odd > 'values/\$(d)/x'; berth import --quiet -o values/x.sqsh $registry/debian:12"
}

teardown_file() {
  in_home 'rm -rf values'
}

teardown() {
  restore_site
  remove_containers
  cancel_everything
}

remove_containers() {
  alice srun -w n1 bash -c \
    'for name in $(berth ps --json | jq -r ".containers[].name"); do berth rm --force "$name"; done' || true
}

# The batch script of standard input, with more options: submit OPTIONS. Its output, and what sbatch says.
submit() { in_home "rm -f out; cat > job.sh; $sbatch_wait -w n1 -o out $1 job.sh || echo sbatch exited \$?; cat out"; }

# No job is made, and one line says why: refused_at_submission REGEX OPTIONS...
refused_at_submission() {
  local before
  before=$(next_job)
  run alice srun -w n1 "${@:2}" true
  expect_failure
  expect_output_like "$1"
  run in_home "printf '#!/bin/sh\n#SBATCH %s\ntrue\n' '${*: -1}' > job.sh; sbatch -w n1 -o /dev/null ${*:2:$#-2} job.sh"
  expect_failure
  expect_output_like "$1"
  expect_equal "$(next_job)" "$before"
}

@test "~/ is the home in images, sources of mounts and save paths, in #SBATCH lines too" {
  run -0 submit "" <<'END'
#!/bin/bash
#SBATCH --container-image=~/values/x.sqsh
#SBATCH --container-mounts=~/values/d:/d,~/values/d
only-in-image
cat /d/x /home/alice/values/d/x
END
  expect_equal "$output" $'only in the image\nof-d\nof-d'
  run -0 alice srun -w n1 '--container-image=~/values/x.sqsh' '--container-mounts=~/values/d:/d:ro' cat /d/x
  expect_equal "$output" of-d
  run -0 contained '--container-save=~/values/saved/home.sqsh' true
  run -0 in_home 'test -s values/saved/home.sqsh'
  # The job's HOME, as everywhere in Slurm.
  run -0 in_home 'HOME=/home/alice/values srun -w n1 "--container-image=~/x.sqsh" "--container-mounts=~/d:/d" cat /d/x'
  expect_equal "$output" of-d
  run -0 in_home 'berth run --mount "~/values/d:/d" "~/values/x.sqsh" cat /d/x'
  expect_equal "$output" of-d
}

@test "another user's home is refused, with what to write" {
  refused_at_submission '~bob is not looked up: write ~/ for your own home' "--container-image=$image" \
    '--container-mounts=~bob/d:/d'
  refused_at_submission '~bob is not looked up' '--container-image=~bob/x.sqsh'
}

@test "a variable is refused at submission, with what to write; other uses of \$ are characters" {
  refused_at_submission 'Slurm leaves #SBATCH lines as they are' '--container-image=$HOME/values/x.sqsh'
  refused_at_submission 'Slurm leaves #SBATCH lines as they are' "--container-image=$image" \
    '--container-mounts=${HOME}/values/d:/d'
  refused_at_submission 'Slurm leaves #SBATCH lines as they are' "--container-image=$image" '--container-workdir=$HOME'
  refused_at_submission 'write %j for the job' "--container-image=$image" '--container-name=job-$SLURM_JOB_ID'
  refused_at_submission 'Slurm leaves #SBATCH lines as they are' "--container-image=$image" \
    '--container-save=values/$X.sqsh'
  run -0 contained '--container-mounts=/home/alice/values/$(d):/d' cat /d/x
  expect_equal "$output" of-odd
  run alice srun -w n1 '--container-image=$oauthtoken@127.0.0.1:1#a/b' true
  expect_failure
  expect_output_like 'no answer from 127.0.0.1:1'
}

@test "policies judge the path with the home in it" {
  with_site_lines '[policy]' 'mount_sources = "/home/alice/values/saved"' 'image_paths = "/home/alice/values"'
  run contained '--container-mounts=~/values/d:/d' true
  expect_failure
  expect_output_like 'mounting /home/alice/values/d at /d .* allows mounts from /home/alice/values/saved only'
  run -0 contained '--container-mounts=~/values/saved:/d' true
  run -0 alice srun -w n1 '--container-image=~/values/x.sqsh' true
  run alice srun -w n1 '--container-image=~/x.sqsh' true
  expect_failure
  expect_output_like 'image /home/alice/x.sqsh: .*policy.image_paths'
}

@test "%j and its like in a name are the job's: each job has a container of its own" {
  for _ in 1 2; do
    run -0 submit "" <<END
#!/bin/bash
#SBATCH --job-name=train
srun --container-image=$image --container-name=%x-%u-%j-%A-%n-%N-%% sh -c 'test ! -e /srv/mine && touch /srv/mine'
srun --container-name=%x-%u-%j-%A-%n-%N-%% test -e /srv/mine
echo \$SLURM_JOB_ID
END
    [[ $output =~ ^[0-9]+$ ]] || fail "$output"
    run -0 alice srun -w n1 --container-name="train-alice-$output-$output-0-n1-%%" test -e /srv/mine
  done
  refused_at_submission 'after % comes one of' "--container-image=$image" --container-name=a%t
  run alice srun -w n1 -J a/b --container-image="$image" --container-name=of-%x true
  expect_failure
  expect_one_error_line
  expect_output_like "%x is 'a/b', which cannot be part of a name"
}

@test "%j in a save path is the job's number, and with %n each node saves" {
  run -0 alice srun -w n1 -J one --container-image="$image" --container-save=values/saved/%x-%J.sqsh true
  run -0 in_home 'ls values/saved'
  expect_output_like 'one-[0-9]+\.0\.sqsh'
  run -0 alice srun -N2 --container-image="$image" --container-save=values/saved/n%n.sqsh true
  run -0 in_home 'test -s values/saved/n0.sqsh && test -s values/saved/n1.sqsh'
  run alice srun -w n1 -J a/b --container-image="$image" --container-save=values/saved/%x.sqsh true
  expect_failure
  expect_output_like "%x is 'a/b', which cannot be part of a name"
  refused_at_submission 'after % comes one of' "--container-image=$image" --container-save=values/%d.sqsh
}

@test "flags with commas and mounts with a blank are told how they are written" {
  run contained --container-mounts=/home:/x:rw,ro true
  expect_failure
  expect_output_like 'flags are joined by \+; write \+ro in place of ,ro'
  run contained '--container-mounts=/home:/x, /opt:/y' true
  expect_failure
  expect_output_like 'take the blank out'
}

@test "--container-mount in the parts of a heterogeneous step: one value for all, and two are an error" {
  part="-n1 --container-image=$image"
  run -0 --separate-stderr in_home "srun -Q $part --container-mount=~/values/d:/a cat /a/x : $part cat /a/x"
  expect_equal "$output" $'of-d\nof-d'
  run -0 --separate-stderr in_home "srun -Q $part cat /a/x : $part --container-mount=~/values/d:/a cat /a/x"
  expect_equal "$output" $'of-d\nof-d'
  mount=--container-mount=~/values/d:/a
  run -0 --separate-stderr in_home "srun -Q $part $mount cat /a/x : $part $mount cat /a/x"
  expect_equal "$output" $'of-d\nof-d'
  # SPANK has one value for all parts. Each would else get the mounts of the other one, too.
  run in_home "srun -Q $part --container-mount=~/values/d:/a true : $part --container-mount=/home:/b true"
  expect_failure
  expect_output_like '--container-mount is given twice, as ~/values/d:/a and as /home:/b; Slurm has one value of it'
  # Of an allocation, too.
  run in_home "salloc -Q -n1 : -n1 srun -Q --het-group=0 $part --container-mount=~/values/d:/a true \
    : --het-group=1 $part --container-mount=/home:/b true"
  expect_failure
  expect_output_like '--container-mount is given twice'
}

@test "--container-mount may be given many times, and adds to --container-mounts" {
  look='--container-mount=/home/alice/values:/a --container-mount=~/values/d:/b --container-mounts=/home:/c'
  look+=' --container-mount=/home/alice/values/d:/d:ro,/home:/e'
  test='cat /a/d/x /b/x /c/alice/values/d/x /d/x /e/alice/values/d/x'
  all=$'of-d\nof-d\nof-d\nof-d\nof-d'
  run -0 in_home "srun -w n1 --container-image=$image $look $test"
  expect_equal "$output" "$all"
  run -0 in_home "srun --export=NONE -w n1 --container-image=$image $look $test"
  expect_equal "$output" "$all"
  # In #SBATCH lines and on the command line at once, which sbatch reads twice; for the script and for its steps.
  run -0 submit "--container-mount=/home/alice/values:/a" <<END
#!/bin/bash
#SBATCH --container-image=$image
#SBATCH --container-mount=~/values/d:/b --container-mounts=/home:/c
#SBATCH --container-mount=~/values/d:/d,/home:/e
$test
END
  expect_equal "${output#*for this job$'\n'}" "$all"
  # A step's own ones are instead of its job's.
  look="--container-mount=/home:/a --container-mount=/home:/b"
  run -0 in_home "salloc -Q -w n1 --container-image=$image $look bash -c '
    srun test -d /a/alice -a -d /b/alice && srun --container-mount=/home:/d test -d /d/alice -a ! -e /a'"
  expect_equal "$output" ""
  run contained --container-mount=/home:/a --container-mount= true
  expect_failure
  expect_output_like 'SRC is missing'
  run -0 in_home "BERTH_CONTAINER_MOUNT=/home:/a,/home:/b srun -w n1 --container-image=$image ls -d /a/alice /b/alice"
  expect_equal "$output" $'/a/alice\n/b/alice'
}
