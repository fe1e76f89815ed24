#!/usr/bin/env bats
# Images of registries: their forms and names, the store on the second run; and what goes wrong.
load helper

setup_file() {
  start_faulty
  start_podman
}

teardown() {
  restore_site
}

teardown_file() {
  stop_faulty
  stop_podman
}

@test "the second run of a tag does one HEAD and gets nothing" {
  run -0 contained true
  mark_log
  run -0 contained cat /srv/hello
  expect_equal "$(count_since HEAD /v2/debian/manifests/)" 1
  expect_equal "$(count_since GET /v2/debian/)" 0
}

@test "a run by digest does no request at all" {
  digest=$(manifest_digest 12)
  run -0 alice srun -w n1 --container-image="$registry/debian@$digest" true
  mark_log
  run -0 alice srun -w n1 --container-image="$registry/debian@$digest" cat /srv/hello
  expect_equal "$output" "hello from the image"
  expect_equal "$(count_since '[A-Z]+' /)" 0
}

@test "a tag and the digest of the same image share their layers" {
  forget_images
  run -0 contained true
  mark_log
  run -0 alice srun -w n1 --container-image="$registry/debian@$(manifest_digest 12)" true
  expect_equal "$(count_since GET /v2/debian/blobs/)" 0
}

@test "a tag that moves is noticed" {
  skopeo --insecure-policy copy -q --src-tls-verify=false --dest-tls-verify=false "docker://$registry/debian:zstd" \
    "docker://$registry/debian:moving"
  run ! alice srun -w n1 --container-image="$registry/debian:moving" test -e /usr/bin/apt-get
  skopeo --insecure-policy copy -q --src-tls-verify=false --dest-tls-verify=false "docker://$registry/debian:12" \
    "docker://$registry/debian:moving"
  run -0 alice srun -w n1 --container-image="$registry/debian:moving" test -e /usr/bin/apt-get
}

@test "a Docker manifest (v2 schema 2) runs" {
  run -0 alice srun -w n1 --container-image="$registry/debian:v2s2" only-in-image
  expect_equal "$output" "only in the image"
}

@test "zstd layers and uncompressed layers run" {
  for tag in zstd tar; do
    run -0 alice srun -w n1 --container-image="$registry/debian:$tag" only-in-image
    expect_equal "$output" "only in the image"
    run ! alice srun -w n1 --container-image="$registry/debian:$tag" test -e /opt/old
  done
}

@test "this machine's platform is chosen from an index" {
  run -0 alice srun -w n1 --container-image="$registry/debian:multi" cat /platform
  expect_equal "$output" amd64
}

@test "hostile row 30: an index without this platform is an error that lists what exists" {
  expect_rejected "$registry/debian:arm64" "arm64"
}

@test "hostile row 59: an image of one static program runs, without a shell, passwd, /dev or /tmp" {
  run -0 alice srun -w n1 --container-image="$registry/debian:bare" /bare
  expect_equal "$output" bare
}

@test "the reference forms name the same image" {
  for form in "docker://$image" "$registry#debian:12" "docker://$registry#debian:12"; do
    run -0 alice srun -w n1 --container-image="$form" only-in-image
    expect_equal "$output" "only in the image"
  done
}

@test "a name without a registry is Docker Hub's, and so are docker.io's and those with #; its mirror has them" {
  skopeo --insecure-policy copy -q --src-tls-verify=false --dest-tls-verify=false "docker://$registry/debian:tar" \
    "docker://$registry/library/tiny:1"
  with_site_lines '[registry."docker.io"]' "mirror = [\"$registry\"]"
  for name in tiny:1 docker.io/tiny:1 docker.io#library/tiny:1 docker://tiny:1; do
    run -0 alice srun -w n1 --container-image="$name" only-in-image
    expect_equal "$output" "only in the image"
  done
}

@test "an image that is missing is tried once for all tasks of a node and told once, in the words that scripts look for" {
  mark_log
  run alice srun -w n1 -n4 --container-image="$registry/debian:no-such-tag" true
  expect_failure
  expect_one_error_line
  expect_output_like "berth: n1: failed to import docker image: $registry/debian:no-such-tag: "
  # Once by srun, which only asks what the tag means, and once by the node.
  expect_equal "$(count_since '(GET|HEAD)' /v2/debian/manifests/no-such-tag)" 2
}

@test "an unknown image and an unknown tag are one line each" {
  expect_rejected "$registry/no/such:image" "no/such"
  expect_rejected "$registry/debian:no-such-tag" "no-such-tag"
}

@test "an unreachable registry is one line, and soon" {
  SECONDS=0
  expect_rejected 127.0.0.1:1/debian:12 "127.0.0.1:1"
  (( SECONDS < 20 ))
}

@test "a digest that the registry does not have is one line" {
  expect_rejected "$registry/debian@sha256:$(printf 'x' | sha256sum | cut -c1-64)" "sha256:"
}

@test "the sockets of docker and podman are those that the job's environment says" {
  run alice env DOCKER_HOST=unix:///nowhere/d.sock srun -w n1 --container-image=dockerd://x true
  expect_failure
  expect_output_like "docker does not listen at /nowhere/d.sock on this node"
  run alice env XDG_RUNTIME_DIR=/nowhere srun -w n1 --container-image=podman://x true
  expect_failure
  expect_output_like "podman does not listen at /nowhere/podman/podman.sock on this node"
}

@test "podman:// and dockerd:// run an image that a service on the node has, and say which one it has not" {
  run -0 alice env XDG_RUNTIME_DIR="$state/podman" srun -w n1 --container-image=podman://localhost/bare /bare
  expect_equal "$output" bare
  run -0 alice env DOCKER_HOST="unix://$podman_socket" \
    srun -w n1 --container-image=dockerd://localhost/bare:latest /bare
  expect_equal "$output" bare
  run alice env XDG_RUNTIME_DIR="$state/podman" srun -w n1 --container-image=podman://localhost/other true
  expect_failure
  expect_one_error_line
  expect_output_like 'podman://localhost/other.*no such image'
  expect_nodes_up
}

@test "the registry with faults serves the good image" {
  run -0 alice srun -w n1 --container-image="$faulty/good:latest" /bare
  expect_equal "$output" bare
}

@test "a pull that takes over a second is told on srun's standard error, with the node's name" {
  # Its second line, if not its first, comes when bytes have come.
  progress=shown run -0 alice srun -w n1 --container-image="$faulty/slower:latest" /bare
  expect_output_like \
    "berth: n1: pulling image $faulty/slower:latest@sha256:[0-9a-f]{64}: [0-9.]+ [kM]?B of [0-9.]+ [kM]?B \([0-9]+%\), \
[0-9.]+ [kM]?B/s, [0-9]+ s left"
  expect_equal "$(grep -v '^berth: n1: ' <<< "$output")" bare
}

@test "a wait before a retry is told on srun's standard error, with its reason" {
  progress=shown run -0 alice srun -w n1 --container-image="$faulty/broken:latest" /bare
  expect_output_like \
    "berth: n1: trying again in [0-9]+ s: image $faulty/broken:latest@sha256:[0-9a-f]{64}, blob sha256:.*: \
no complete answer from $faulty"
  expect_equal "$(grep -v '^berth: n1: ' <<< "$output")" bare
}

@test "hostile row 17: a truncated layer, a short gzip and bytes after its end are rejected" {
  expect_rejected "$faulty/truncated:latest" "$faulty"
  expect_rejected "$faulty/short-gzip:latest" "$faulty"
  expect_rejected "$faulty/garbage:latest" "$faulty"
}

@test "hostile row 23: a layer, a config or a manifest that is not what its digest says is rejected" {
  expect_rejected "$faulty/flipped:latest" "sha256"
  expect_rejected "$faulty/config:latest" "sha256"
  expect_rejected "$faulty/manifest:latest" "sha256"
  expect_rejected "$faulty/size:latest" "$faulty"
}

@test "hostile row 28: a digest that is a path, or in capitals, is rejected before any use" {
  expect_rejected "$faulty/traversal:latest" "digest"
  expect_rejected "$faulty/uppercase:latest" "digest"
}

@test "hostile row 29: a wrong diff_id and a wrong count of them are rejected" {
  expect_rejected "$faulty/diffid:latest" "diff_id"
  expect_rejected "$faulty/count:latest" "diff_id"
}
