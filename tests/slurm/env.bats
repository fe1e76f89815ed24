#!/usr/bin/env bats
# The environment inside the container.
load helper

@test "the image's variables win over the host's, the job's others pass" {
  run -0 in_home \
    "IMAGE_VAR=host OTHER=kept srun --container-image=$image sh -c 'echo \$IMAGE_VAR \$OTHER \$SLURM_PROCID'"
  expect_equal "$output" "from-image kept 0"
}

@test "PATH is the image's" {
  run -0 contained printenv PATH
  expect_equal "$output" /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
}

@test "HOME is the user's, and /root under --container-remap-root" {
  run -0 contained printenv HOME
  expect_equal "$output" /home/alice
  run -0 contained --container-remap-root printenv HOME
  expect_equal "$output" /root
}

@test "HOME of the job is where --container-mount-home looks" {
  run -0 in_home "mkdir -p other; echo other > other/x; HOME=/home/alice/other srun -w n1 --container-image=$image \
      --container-mount-home --container-remap-root cat /root/x"
  expect_equal "$output" other
  run -0 in_home \
    "HOME=/home/alice/other srun -w n1 --container-image=$image --container-mount-home \
      sh -c 'echo \$HOME; cat \$HOME/x'"
  expect_equal "$output" $'/home/alice/other\nother'
}

@test "TERM is the caller's" {
  run -0 in_home "TERM=vt220 srun -w n1 --container-image=$image printenv TERM"
  expect_equal "$output" vt220
}

@test "--container-env brings the host's locale in" {
  run -0 in_home "LANG=de_DE.UTF-8 srun -w n1 --container-image=$image --container-env=LANG printenv LANG"
  expect_equal "$output" de_DE.UTF-8
}

@test "the host's locale is dropped, the image's stays" {
  run -0 in_home \
    "LC_ALL=de_DE.UTF-8 LANGUAGE=de LANG=de_DE.UTF-8 srun --container-image=$image \
      sh -c 'echo \"\$LANG:\$LC_ALL:\$LANGUAGE\"'"
  expect_equal "$output" "C.UTF-8::"
}

@test "--container-env lets the host's value win" {
  run -0 in_home \
    "IMAGE_VAR=host FOO=bar srun --container-image=$image --container-env=IMAGE_VAR,FOO sh -c 'echo \$IMAGE_VAR \$FOO'"
  expect_equal "$output" "host bar"
}

@test "--container-env of a variable that the host lacks changes nothing" {
  run -0 contained --container-env=IMAGE_VAR,NOT_SET sh -c 'echo $IMAGE_VAR:${NOT_SET-unset}'
  expect_equal "$output" from-image:unset
}

@test "each task has its own SLURM_PROCID and the job's variables" {
  run -0 contained -n3 sh -c 'echo $SLURM_PROCID'
  expect_equal "$(sort <<< "$output" | xargs)" "0 1 2"
}

@test "hostile row 57: newlines, LD_PRELOAD and settings of ours reach the task byte for byte" {
  run -0 in_home "FOO=\$'a\\nb' srun --container-image=$image printenv FOO"
  expect_equal "$output" $'a\nb'
  run -0 --separate-stderr in_home \
    "LD_PRELOAD=/not/there.so BERTH_STORE_PATHS=x srun --container-image=$image \
      sh -c 'echo \$LD_PRELOAD \$BERTH_STORE_PATHS'"
  expect_equal "$output" "/not/there.so x"
}

@test "a key of the site file as a variable of the job, and a wrong value named" {
  run ! in_home "BERTH_DEFAULTS_WRITABLE=no srun --container-image=$image touch /file"
  expect_output_like "Read-only file system"
  run ! in_home "BERTH_DEFAULTS_WRITABLE=perhaps srun --container-image=$image true"
  expect_output_like "BERTH_DEFAULTS_WRITABLE=perhaps"
  expect_one_error_line
}

@test "hostile row 58: a mebibyte of environment reaches the task" {
  run -0 in_home "for i in 1 2 3 4 5 6 7 8 9 10; do export BIG\$i=\$(head -c 100000 /dev/zero | tr '\\0' x); done
    srun --container-image=$image sh -c 'echo \${#BIG1} \${#BIG10}'"
  expect_equal "$output" "100000 100000"
}
