#!/usr/bin/env bats
# The scripts of conf/examples, each run as it is, with an image that has stand-ins for the programs of NGC's. That of
# mig-divided.sbatch is in tests/sites/mig.bats.
load helper

standin=/home/alice/standin.sqsh
tools=/home/alice/tools.sqsh

# The programs print what they are called with and what they see.
setup_file() {
  alice berth run --root --name standin "$image" bash -c '
    for program in torchrun tritonserver python pip; do
      printf "#!/bin/sh\necho $program \"\$@\" in \$(pwd) on \$SLURMD_NODENAME\n" > /usr/local/bin/$program
      chmod 755 /usr/local/bin/$program
    done'
  alice berth save --force -o "$standin" standin
  alice berth rm standin
  alice mkdir -p examples/models
  # From outside: the box may not see the checkout.
  cp -r "$repo/conf/examples/." "$state/home/alice/examples"
}

teardown_file() {
  root rm -rf /home/alice/examples "$standin" "$tools"
}

teardown() {
  restore_site
  cancel_after_failure
}

# Submits with variables and options, and prints what the jobs wrote; fails as they do: batch VARIABLES OPTIONS...
# SCRIPT ARGUMENTS...
batch() {
  in_home "cd examples && rm -f *.out && export $1 && $sbatch_wait ${*:2}; code=\$?; cat *.out; exit \$code"
}

@test "pytorch-multinode.sbatch: a torchrun on each node, which meet on the first" {
  run -0 --separate-stderr batch "IMAGE=$standin" --gpus-per-node=h100:1 pytorch-multinode.sbatch train.py --epochs 3
  line='^torchrun --nnodes=2 --nproc-per-node=gpu --node-rank=[01] --rdzv-backend=c10d --rdzv-id=[0-9]+'
  line+=' --rdzv-endpoint=n1:(29[5-9]|30[0-4])[0-9]{2} train.py --epochs 3 in /job on n[12]$'
  expect_equal "$(grep -cE "$line" <<< "$output" || true)" 2
  expect_equal "$(grep -o 'node-rank=[01]' <<< "$output" | sort | xargs)" "node-rank=0 node-rank=1"
}

@test "mpi.sbatch: the ranks of two nodes add up, by PMIx and by PMI-2" {
  run -0 --separate-stderr batch "IMAGE=$registry/debian:mpi" mpi.sbatch sums-openmpi
  expect_output_like "4 ranks on 2 nodes, 2 on the first, sum 6"
  run -0 --separate-stderr batch "MPI=pmi2 IMAGE=$registry/debian:mpi" mpi.sbatch sums-mpich
  expect_output_like "4 ranks on 2 nodes, 2 on the first, sum 6"
}

@test "mig-inference.sbatch: each task of the array has a MIG device of its own and the models" {
  run -0 --separate-stderr batch "NVIDIA_VISIBLE_DEVICES=all IMAGE=$standin" --array=0-1 -w n1 mig-inference.sbatch \
    models
  expect_equal "$(grep -c '^serving on MIG-' <<< "$output" || true)" 2
  expect_equal "$(grep -c '^tritonserver --model-repository=/models in ' <<< "$output" || true)" 2
}

@test "air-gapped.sbatch: a file on a shared path, with no request to a registry" {
  mark_log
  run -0 --separate-stderr batch "IMAGE=$standin" air-gapped.sbatch python train.py
  expect_output_like "python train.py in /job on n1"
  expect_equal "$(count_since '(HEAD|GET)' /v2/)" 0
  run batch IMAGE=standin.sqsh air-gapped.sbatch true
  expect_status 2
  expect_output_like "IMAGE=standin.sqsh: write the file's path from / or ./"
}

@test "interactive.sh: a shell with a terminal, in the folder where it was started" {
  run script -qec "'$box' run -u alice -C /home/alice/examples -- env IMAGE=$standin ./interactive.sh -w n1" /dev/null \
    <<'END'
tty
echo here: $PWD
python x
exit 5
END
  expect_status 5
  expect_output_like "/dev/pts/[0-9]+"
  expect_output_like "here: /home/alice/examples"
  expect_output_like "python x in /home/alice/examples on n1"
}

@test "named-container.sbatch: a later step has what an earlier one wrote, the saved image too, and no container stays" {
  run -0 --separate-stderr batch \
    "IMAGE=$standin SETUP='id -u; echo mine > /opt/mine' CHECK='cat /opt/mine' OUTPUT=\$HOME/examples/extended.sqsh" \
    -w n1 \
    named-container.sbatch
  expect_equal "$(grep -xE '0|mine' <<< "$output" | xargs)" "0 mine"
  run -0 alice srun -w n1 --container-image=/home/alice/examples/extended.sqsh cat /opt/mine
  expect_equal "$output" "mine"
  run -0 alice srun -w n1 berth ps
  [[ $output != *extend-* ]]
}

# The image with buildah, which knows the box's registry as one without TLS.
make_tools() {
  alice berth run --root --name tools "$registry/debian:nested" sh -c \
    "printf '[[registry]]\nlocation = \"$registry\"\ninsecure = true\n' >> /etc/containers/registries.conf"
  alice berth save --force -o "$tools" tools
  alice berth rm tools
}

@test "build.sbatch: a Dockerfile becomes an image of a registry, which can be published, and a file" {
  make_tools
  in_home "mkdir -p examples/app && cd examples/app && printf '#!/bin/sh\necho app of \$(cat /opt/mark)\n' > app &&
    chmod 755 app && printf '%s\n' 'FROM $image' 'COPY app /usr/local/bin/' \
      'RUN groupadd -r service && useradd -r -g service service && chown service:service /usr/local/bin/app' \
      'RUN echo the build > /opt/mark && test \$(id -u) = 0' 'ENV OF_BUILD=yes' 'WORKDIR /opt' > Dockerfile"
  run -0 --separate-stderr batch "TOOLS=$tools" -w n1 build.sbatch ./app "$registry/team/built:1"
  run -0 alice srun -w n2 --container-image="$registry/team/built:1" sh -c 'app; echo $OF_BUILD in $(pwd)'
  expect_equal "$output" $'app of the build\nyes in /opt'
  with_site_lines '[share]' 'artifacts = "referrers"'
  run -0 alice berth publish "$registry/team/built:1"
  expect_output_like '^published sha256:[0-9a-f]{64}: [0-9]+ layers in referrers'
  run -0 --separate-stderr batch "TOOLS=$tools" -w n1 build.sbatch ./app ./built.sqsh
  run -0 alice srun -w n2 --container-image=./examples/built.sqsh app
  expect_equal "$output" 'app of the build'
  # Nothing of it stays on the node.
  run ! alice srun -w n1 sh -c 'ls -d /tmp/build-*'
}

@test "build.sbatch: where the site forbids nested containers the job says so" {
  with_site_lines '[security]' 'nested = "never"'
  run batch "TOOLS=$standin" -w n1 build.sbatch ./app "$registry/team/built:2"
  expect_failure
  expect_output_like 'user namespaces in the container: .*security.nested forbids them'
}
