#!/usr/bin/env bats
# --container-environment: image, mounts, variables and more from a file, which the nodes never see.
load helper

home=/home/alice
own=$home/.config/berth/environments
sites=/etc/berth/environments

setup_file() {
  root mkdir -p "$sites"
  in_home "mkdir -p $own .edf projects"
}

teardown_file() {
  root rm -rf "$sites"
  in_home "rm -rf $own .edf projects"
}

teardown() {
  in_home "rm -f $own/* .edf/* projects/* environment-*.out"
  root bash -c "rm -f $sites/*"
  cancel_everything
}

# An environment file of alice's: environment PATH < text
environment() { alice tee "$1" > /dev/null; }
site_environment() { root tee "$sites/$1" > /dev/null; }

@test "a NAME stands for image, mounts, variables and working directory" {
  environment "$own/ml.toml" << EOF
image = "$image"
mounts = ["\${HOME}/projects:/work:ro", "/etc/hostname:/node"]
workdir = "/work"
writable = false
[env]
PATH = "\${PATH}:/custom"
FLAVOUR = "from \${JOB_SAYS} file"
GONE = ""
EOF
  in_home 'echo hello > projects/greeting'
  run -0 alice env JOB_SAYS=the GONE=x srun -w n1 --container-environment=ml sh -c \
    'pwd; cat greeting; touch greeting /x; echo "$FLAVOUR|${GONE-unset}|$PATH"; test -e /etc/debian_version'
  expect_equal "$(grep -v touch: <<< "$output")" $'/work\nhello\nfrom the file|unset|'"$(image_path):/custom"
  expect_equal "$(grep -c 'Read-only file system' <<< "$output")" 2
  expect_no_leftovers
}

image_path() { contained printenv PATH; }

@test "a FILE by its path, and a variable that stands for the option" {
  environment projects/solver.toml <<< "image = \"$image\""
  run -0 in_home 'cd projects; srun -w n1 --container-environment=./solver.toml cat /etc/debian_version'
  expect_output_like '^12'
  run -0 in_home 'cd projects; srun -w n1 --container-environment=solver.toml cat /etc/debian_version'
  expect_output_like '^12'
  run -0 alice env BERTH_CONTAINER_ENVIRONMENT="$home/projects/solver.toml" srun -N2 cat /etc/debian_version
  expect_equal "$(grep -c ^12 <<< "$output")" 2
}

@test "two nodes run it without seeing the file, whatever --export lets through, and the registry is asked once" {
  environment "$own/ml.toml" << EOF
image = "$image"
[env]
FLAVOUR = "sweet"
EOF
  digest=$(manifest_digest 12)
  mark_log
  run -0 alice srun -N2 --export=NONE --container-environment=ml sh -c 'echo $FLAVOUR; echo $BERTH_CONTAINER_DIGEST'
  expect_equal "$(sort -u <<< "$output")" "$digest"$'\nsweet'
  expect_equal "$(count_since HEAD /v2/debian/manifests/)" 1
}

@test "the user's folder comes before CSCS' and the site's, and bases are found by the same rules" {
  site_environment ml.toml <<< 'image = "of/the-site"'
  site_environment common.toml << EOF
image = "$image"
mounts = ["/etc/hostname:/one", "/etc/hostname:/two"]
[env]
A = "common"
B = "common"
EOF
  run -0 alice berth environment show ml
  expect_equal "$output" "# $sites/ml.toml"$'\nimage = "of/the-site"'
  environment .edf/ml.toml <<< 'image = "of/edf"'
  run -0 alice berth environment show ml
  expect_output_like 'of/edf'
  environment "$own/ml.toml" << EOF
base = "common"
mounts = ["/etc/debian_version:/two"]
[env]
B = "own"
EOF
  run -0 alice srun -w n1 --container-environment=ml sh -c 'echo $A $B; test -s /one; cat /two'
  expect_equal "$output" "common own"$'\n'"$(root cat /etc/debian_version)"
  run -0 alice berth environment list
  expect_equal "$(sed 's/  */ /g' <<< "$output")" "NAME FILE
ml $own/ml.toml
ml $home/.edf/ml.toml (hidden by the one above)
common $sites/common.toml
ml $sites/ml.toml (hidden by the one above)"
  environment projects/ml.toml <<< 'image = "of/edf-path"'
  in_home "rm $own/ml.toml"
  run -0 alice env EDF_PATH="$home/projects" berth environment show ml
  expect_output_like 'of/edf-path'
}

@test "flags win over the file, and mounts add to its mounts" {
  environment "$own/ml.toml" << EOF
image = "no/such-image:ever"
workdir = "/no/such/folder"
writable = false
mounts = ["/etc/hostname:/one", "/no/such/file:/two"]
[env]
A = "file"
B = "file"
EOF
  run -0 alice env A=job srun -w n1 --container-environment=ml --container-image="$image" --container-workdir=/tmp \
    --container-writable --container-mounts=/etc/hostname:/two --container-env=A \
    sh -c 'touch /x && pwd; test -s /one; test -s /two; echo $A $B'
  expect_equal "$output" $'/tmp\njob file'
}

@test "an environment that a step names wins over the image of the job around it" {
  environment "$own/ml.toml" << EOF
image = "$image"
writable = false
EOF
  run -0 alice env BERTH_CONTAINER_WORKDIR=/tmp salloc -w n1 --container-image=no/such-image:ever --container-writable \
    srun --container-environment=ml sh -c 'pwd; touch /x 2> /dev/null || echo read-only; cat /etc/debian_version'
  expect_output_like $'(^|\n)/tmp\nread-only\n12'
}

@test "an EDF of CSCS is read as it is; keys and annotations without an effect are named in one line" {
  environment .edf/pytorch.toml << EOF
base_environment = ["common_env"]
mounts = [
    "/home/\${USER}/projects:/home/\${USER}/projects",
    "\${SCRATCH:-/tmp}:/scratch:ro+private"
]
workdir = "/home/\${USER}/projects"
entrypoint = false
perfmon = true

[env]
NCCL_DEBUG = "INFO"
PRICE = "\$\${HOME}"

[annotations]
com.hooks.cxi.enabled = "true"
[annotations.com.hooks.aws_ofi_nccl]
variant = "cuda12"
EOF
  environment .edf/common_env.toml <<< "image = \"${registry}#debian:12\""
  run -0 --separate-stderr alice srun -w n1 --container-environment=pytorch \
    sh -c 'pwd; echo $NCCL_DEBUG "$PRICE"; echo $OCI_ANNOTATION_com__hooks__cxi__enabled'
  expect_equal "$output" "$home/projects"$'\nINFO ${HOME}\ntrue'
  expect_equal "$(grep -c berth: <<< "$stderr")" 1
  output=$stderr expect_output_like "berth: the environment $home/.edf/pytorch.toml: these have no effect here: perfmon"
}

@test "a #SBATCH line: the script, and steps of the same environment, run what the file said at submission" {
  environment "$own/ml.toml" << EOF
image = "$image"
[env]
STATE = "submitted"
EOF
  environment "$own/other.toml" << EOF
image = "$image"
[env]
STATE = "other"
EOF
  environment projects/job.sh << 'EOF'
#!/bin/sh
#SBATCH --container-environment=ml --output=environment-job.out -w n1
echo "script $STATE $(cat /etc/debian_version)"
EOF
  job=$(in_home 'sbatch --hold --parsable projects/job.sh')
  environment projects/steps.sh << 'EOF'
#!/bin/sh
#SBATCH --output=environment-steps.out -w n1
srun --container-environment=ml sh -c 'echo "step $STATE"'
srun --container-environment=other sh -c 'echo "step $STATE"'
EOF
  environment "$own/ml.toml" << EOF
image = "$image"
[env]
STATE = "edited"
EOF
  root scontrol release "$job"
  in_home "sbatch --wait projects/steps.sh" > /dev/null
  wait_until 30 no_jobs
  expect_output_of environment-job.out "script submitted 12.*"
  expect_output_of environment-steps.out $'step edited\nstep other'
}

# What a file in alice's home has: expect_output_of FILE REGEX
expect_output_of() {
  output=$(in_home "cat $1")
  expect_output_like "^$2\$"
}

@test "an entrypoint sees the variables of the file" {
  environment "$own/ml.toml" << EOF
image = "$registry/debian:entry"
entrypoint = true
[env]
FLAVOUR = "\${JOB_SAYS}"
EOF
  run -0 alice env JOB_SAYS=sweet srun -w n1 --container-environment=ml sh -c 'echo "$FLAVOUR"'
  expect_equal "$(tail -n 1 <<< "$output")" sweet
}

@test "a named container, by the file" {
  environment "$own/dev.toml" << EOF
image = "$image"
name = "environment-dev"
writable = true
EOF
  run -0 alice srun -w n1 --container-environment=dev touch /kept
  environment "$own/dev.toml" << EOF
name = "environment-dev"
[env]
A = "of the second"
EOF
  run -0 alice srun -w n1 --container-environment=dev sh -c 'ls /kept; echo $A'
  expect_equal "$output" $'/kept\nof the second'
  expect_no_leftovers
  root bash -c "rm -rf $state/nodes/*/data/*environment-dev*"
  run alice srun -w n1 berth rm environment-dev
}

@test "mistakes are told in one line before the job waits" {
  before=$(next_job)
  expect_mistake none 'the environment none: there is no none.toml in /home/alice/.config/berth/environments, '
  environment "$own/circle.toml" <<< 'base = "circle"'
  expect_mistake circle 'circle.toml: it is based on itself'
  environment "$own/empty.toml" <<< 'workdir = "/"'
  expect_mistake empty '--container-environment: empty has no image; write image = "..." in it, or give '
  environment "$own/toml.toml" <<< 'image = '
  expect_mistake toml "$own/toml.toml:1:"
  environment "$own/type.toml" <<< 'writable = "yes"'
  expect_mistake type "$own/type.toml:1:12: writable must be true or false"
  environment "$own/variable.toml" <<< 'image = "${NO_SUCH_VARIABLE}"'
  expect_mistake variable 'variable.toml:1:9: image: the variable NO_SUCH_VARIABLE is not set'
  in_home "printf 'image = \"\\377\"' > $own/bytes.toml; mkfifo $own/pipe.toml"
  in_home "head -c 70000 /dev/zero > $own/large.toml"
  in_home "echo 'image = \"x\"' > $own/secret.toml; chmod 0 $own/secret.toml"
  expect_mistake bytes "$own/bytes.toml:1:"
  expect_mistake pipe 'it is no regular file'
  expect_mistake large 'longer than the limit of 65536 bytes'
  expect_mistake secret 'Permission denied'
  expect_equal "$(next_job)" "$before"
}

# The line of srun, and that of sbatch: expect_mistake NAME TEXT
expect_mistake() {
  run alice timeout 30 srun --container-environment="$1" true
  expect_failure
  expect_one_error_line
  [[ $output == *"$2"* ]] || fail "$output"
  run alice timeout 30 sbatch --container-environment="$1" --wrap true
  expect_failure
  [[ $output == *"$2"* ]] || fail "$output"
}

@test "a variable of [env] that only the node can miss fails the step with one line" {
  environment "$own/ml.toml" << EOF
image = "$image"
[env]
A = "\${NOT_IN_THE_IMAGE_EITHER}"
EOF
  run alice srun -w n1 --container-environment=ml true
  expect_failure
  expect_one_error_line
  expect_output_like '--container-environment: env.A: the variable NOT_IN_THE_IMAGE_EITHER is not set'
  expect_nodes_up
}

@test "a file gives no rights: the site's policy judges its mounts and its image" {
  environment "$own/ml.toml" << EOF
image = "$image"
mounts = ["/etc/hostname:/one"]
EOF
  with_site_lines '[policy]' 'mount_sources = "/home"'
  run alice srun -w n1 --container-environment=ml true
  restore_site
  expect_failure
  expect_one_error_line
  expect_output_like '/etc/hostname'
}

@test "berth run --environment: the file's image, or the one on the command line" {
  environment "$own/ml.toml" << EOF
image = "$image"
mounts = ["/etc/hostname:/one"]
workdir = "/tmp"
[env]
A = "file"
B = "file"
EOF
  run -0 alice berth run -q --environment ml sh -c 'pwd; test -s /one; echo $A $B'
  expect_equal "$output" $'/tmp\nfile file'
  run -0 alice berth run -q --environment ml -w / -e A=flag -- sh -c 'pwd; echo $A $B'
  expect_equal "$output" $'/\nflag file'
  environment "$own/none.toml" <<< 'workdir = "/tmp"'
  run -0 alice berth run -q --environment none "$image" pwd
  expect_equal "$output" /tmp
  run alice berth run -q --environment none
  expect_failure
  expect_output_like 'the environment none: it names no image; write one before the command'
  run -0 alice berth plan -q --environment ml
  expect_output_like 'env +A +file +option --container-environment'
}
