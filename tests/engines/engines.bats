#!/usr/bin/env bats
# Workflow engines of Debian's packages, which call `singularity`: Snakemake, cwltool, Toil. Of engines without a
# package, Nextflow and Galaxy, the command lines that they build. Tests with the tag quick run in every run.
# shellcheck disable=SC2016,SC2154
load ../slurm/helper

setup_file() {
  local name
  for name in apptainer singularity; do root ln -sf berth "/usr/bin/$name"; done
  in_home "rm -rf engines; mkdir -p engines; cd engines
    cat > tool.cwl <<'CWL'
cwlVersion: v1.0
class: CommandLineTool
requirements:
  DockerRequirement:
    dockerPull: $image
baseCommand: [sh, -c, 'only-in-image; cat \"\$0\"; echo of \$HOME \$TMPDIR; id -un; touch \"\$HOME/kept\"']
inputs:
  file: {type: File, inputBinding: {position: 1}}
outputs:
  text: stdout
  kept: {type: File, outputBinding: {glob: kept}}
stdout: text
CWL
    cat > Snakefile <<'SNAKE'
rule all:
    input: expand(\"{name}.out\", name=[\"a\", \"b\"])
rule of_container:
    input: \"{name}.in\"
    output: \"{name}.out\"
    container: \"docker://$image\"
    shell: \"only-in-image > {output}; cat {input} >> {output}; id -un >> {output}; pwd >> {output}\"
SNAKE
    for name in a b; do echo \"of \$name\" > \$name.in; done"
}

teardown_file() {
  in_home 'rm -rf engines' > /dev/null 2>&1 || true
  local name
  for name in apptainer singularity; do root rm -f "/usr/bin/$name"; done
}

teardown() { cancel_after_failure; }

# In a new folder with copies of the files: engine COMMAND.
engine() { in_home "mkdir -p engines/work; cd engines/work && rm -rf ./* .snakemake && cp ../* . 2> /dev/null; $1"; }

# What both rules of the Snakefile have written, in the image and in the working directory.
expect_outputs() {
  run -0 in_home 'cd engines/work; cat a.out b.out'
  expect_equal "$output" "only in the image
of a
alice
/home/alice/engines/work
only in the image
of b
alice
/home/alice/engines/work"
}

# What the tool of tool.cwl has printed, and left in its working directory.
expect_tool_output() {
  run -0 in_home 'cd engines/work; cat text; ls kept'
  expect_output_like '^only in the image
of a
of /[^ ]+ /tmp
alice
kept$'
}

# bats test_tags=quick
@test "Snakemake: container: of a registry, with --use-singularity" {
  run -0 engine 'snakemake --use-singularity -j 1 2>&1'
  expect_output_like 'Pulling singularity image'
  expect_outputs
  # The file that it pulled is used again.
  run -0 in_home 'cd engines/work; rm a.out; snakemake --use-singularity -j 1 2>&1'
  [[ $output != *'Pulling singularity image'* ]] || fail "$output"
  expect_outputs
}

# bats test_tags=quick
@test "Snakemake: a rule that fails fails" {
  run -1 engine 'sed -i "s/only-in-image/false/" Snakefile; snakemake --use-singularity -j 1 2>&1'
  expect_output_like 'Error in rule of_container'
}

# bats test_tags=quick
@test "Snakemake: --cluster sbatch, with --singularity-args" {
  run -0 engine 'snakemake --use-singularity --singularity-args "--bind /etc/hostname:/marker --cleanenv" -j 2 \
    --cluster "sbatch -n 1" --latency-wait 60 2>&1'
  expect_outputs
  run -0 in_home 'cat engines/work/slurm-*.out'
  expect_output_like 'of_container'
}

@test "Snakemake: a file as the container of all rules, a script, a shadow folder, --singularity-prefix" {
  run -0 engine "singularity -q pull img.sif docker://$image
    cat > Snakefile <<'SNAKE'
container: \"img.sif\"
rule all:
    input: \"x.out\"
rule one:
    output: temp(\"x.mid\")
    shadow: \"minimal\"
    shell: \"only-in-image > {output}\"
rule two:
    input: \"x.mid\"
    output: \"x.out\"
    container: \"docker://$image\"
    script: \"two.sh\"
SNAKE
    echo 'cat \${snakemake_input[0]} > \${snakemake_output[0]}; only-in-image >> \${snakemake_output[0]}' > two.sh
    snakemake --use-singularity --singularity-prefix \$PWD/prefix -j 2 2>&1"
  run -0 in_home 'cd engines/work; cat x.out; ls prefix | wc -l'
  expect_equal "$output" $'only in the image\nonly in the image\n1'
}

# bats test_tags=quick
@test "cwltool: --singularity with a DockerRequirement" {
  run -0 engine 'cwltool --singularity tool.cwl --file a.in 2>&1'
  expect_output_like 'singularity'
  expect_output_like 'completed success'
  expect_tool_output
}

# bats test_tags=quick
@test "cwltool: a tool that fails fails" {
  run -1 engine 'sed -i "s/only-in-image/exit 3/" tool.cwl; cwltool --singularity tool.cwl --file a.in 2>&1'
  expect_output_like 'completed permanentFail'
}

@test "Toil: its CWL runner, with --singularity" {
  run -0 engine 'toil-cwl-runner --singularity --jobStore "$PWD/jobs" tool.cwl --file a.in 2>&1'
  expect_tool_output
}

@test "Toil: jobs of Slurm, by --batchSystem slurm" {
  run -0 engine 'toil-cwl-runner --batchSystem slurm --singularity --jobStore "$PWD/jobs" --workDir "$PWD" tool.cwl \
    --file a.in 2>&1'
  expect_tool_output
}

@test "cwltool: a workflow whose steps run beside each other, with a folder, a variable and no network" {
  run -0 engine "cat > step.cwl <<'CWL'
cwlVersion: v1.2
class: CommandLineTool
requirements:
  DockerRequirement:
    dockerPull: $image
    dockerOutputDirectory: /out
  EnvVarRequirement:
    envDef: {GREETING: hello}
  InitialWorkDirRequirement:
    listing: [{entryname: input/list, entry: a list}, \$(inputs.folder)]
  NetworkAccess: {networkAccess: false}
baseCommand: [sh, -c, 'cat \"\$0\" input/list; echo; echo \$GREETING; ls d; pwd; tail -n +3 /proc/net/dev | wc -l']
inputs:
  folder: Directory
  file: {type: File, inputBinding: {position: 1}}
outputs:
  text: stdout
stdout: \$(inputs.file.basename).out
CWL
    cat > flow.cwl <<'CWL'
cwlVersion: v1.2
class: Workflow
requirements: {ScatterFeatureRequirement: {}}
inputs: {files: 'File[]', folder: Directory}
steps:
  one:
    run: step.cwl
    scatter: file
    in: {file: files, folder: folder}
    out: [text]
outputs: {texts: {type: 'File[]', outputSource: one/text}}
CWL
    cat > job.yml <<'CWL'
folder: {class: Directory, path: d}
files: [{class: File, path: a.in}, {class: File, path: b.in}]
CWL
    mkdir d; touch d/y; cwltool --parallel --singularity flow.cwl job.yml 2>&1"
  expect_output_like 'workflow \] completed success'
  run -0 in_home 'cd engines/work; cat a.in.out b.in.out | sort | uniq -c | sed "s/^ *//"'
  expect_equal "$output" $'2 /out\n2 1\n2 a list\n2 hello\n1 of a\n1 of b\n2 y'
}

@test "Nextflow: what it pulls, and how it runs a task" {
  run -0 --separate-stderr engine "mkdir cache; cd cache; singularity pull  --name x.img.pulling.17 docker://$image \
    > /dev/null; mv x.img.pulling.17 x.img; ls"
  expect_equal "$output" x.img
  # The forms of releases up to 22, and of those since.
  for own in '' '--no-home'; do
    run -0 --separate-stderr in_home 'cd engines/work; mkdir -p task; cd task; printf "only-in-image\npwd\n" > run.sh
      export TMP= TMPDIR=; set +u; env - PATH="$PATH" SINGULARITYENV_TMP="$TMP" SINGULARITYENV_TMPDIR="$TMPDIR" \
      SINGULARITYENV_NXF_DEBUG="0" singularity exec '"$own"' -B /home/alice/engines/work ../cache/x.img /bin/bash -c \
      "cd $PWD; eval echo; /bin/bash -ue $PWD/run.sh"'
    expect_equal "$output" $'\nonly in the image\n/home/alice/engines/work/task'
  done
}

@test "Nextflow: exec --no-home --pid, on a node whose /proc nothing covers" {
  run -0 --separate-stderr in_home "cd engines/work; singularity -q pull -F --name x.img docker://$image"
  run -0 --separate-stderr with_proc 'cd ~/engines/work; NXF_TASK_WORKDIR=$PWD singularity exec --no-home --pid \
    -B "$PWD" x.img /bin/bash -c "cd $PWD; ls -d /proc/[0-9]* | wc -l"'
  (( output <= 5 )) || fail "$output"
}

@test "Galaxy: what it builds of a registry's image, and how it runs a tool" {
  run -0 --separate-stderr engine "mkdir cache; singularity build \$PWD/cache/x:1 docker://$image; ls cache"
  expect_equal "$output" x:1
  run -0 --separate-stderr with_proc 'cd ~/engines/work; mkdir -p tool job; echo data > tool/x
    SINGULARITYENV_GALAXY_SLOTS="4" SINGULARITYENV_HOME="$PWD/job" singularity -s exec --contain --pwd $PWD/job \
    --cleanenv --ipc --pid --no-mount tmp -B $PWD/tool:$PWD/tool:ro -B $PWD/job:$PWD/job --home $PWD/job:$PWD/job \
    "$PWD/cache/x:1" sh -c "only-in-image; cat ../tool/x; echo \$GALAXY_SLOTS \$HOME; pwd"'
  expect_equal "$output" "only in the image
data
4 /home/alice/engines/work/job
/home/alice/engines/work/job"
}
