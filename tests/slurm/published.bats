#!/usr/bin/env bats
# berth publish, and steps that fetch layers in the form in which they run (share.artifacts).
load helper

setup() {
  forget_images
  mark_log
}

teardown() {
  restore_site
  forget_images
}

# How often nodes asked for a layer that has to be converted.
converted_layers() {
  local layer sum=0
  for layer in $(layer_digests 12); do sum=$((sum + $(count_since GET "/v2/debian/blobs/$layer"))); done
  echo "$sum"
}

artifact_tag() { echo "$(manifest_digest 12 | tr : -).berth"; }

@test "published: layers that are beside the image are fetched as they are, and the files are the same" {
  run -0 alice berth publish "$image"
  expect_output_like "published $(manifest_digest 12): 3 layers in referrers"
  run -0 alice berth publish "$image"
  expect_output_like "was published $(manifest_digest 12)"
  # Where a registry has no referrers API, as this one, other tools find it in a list.
  run -0 bash -c "curl -sf -H 'Accept: application/vnd.oci.image.index.v1+json' \
    http://$registry/v2/debian/manifests/$(manifest_digest 12 | tr : -) |
    jq -r '[.manifests[]|select(.artifactType==\"application/vnd.berth.image.v1\")]|length'"
  expect_equal "$output" 1
  # shellcheck disable=SC2016
  script='find / -xdev \( -type f -o -type l \) -not -path "/proc/*" -not -path "/etc/*" -printf "%p %m %s %l\n" | sort
    find /usr /srv -xdev -type f -exec sha256sum {} + | sort'
  run -0 contained sh -c "$script"
  local wanted=$output
  forget_images
  with_site_lines '[share]' 'artifacts = "referrers"'
  mark_log
  run -0 contained sh -c "$script"
  expect_equal "$output" "$wanted"
  expect_equal "$(converted_layers)" 0
  expect_equal "$(count_since GET "/v2/debian/manifests/$(artifact_tag)")" 1
  run -0 alice srun -w n1 berth verify
}

@test "published: a repository of the site's, and an image that nobody has published" {
  run -0 alice berth publish --to "$registry/site/layers" "$image"
  with_site_lines '[share]' "artifacts = \"$registry/site/layers\""
  forget_images
  mark_log
  run -0 contained cat /srv/hello
  expect_equal "$(converted_layers)" 0
  # A user's variable counts in a step too.
  restore_site
  forget_images
  mark_log
  run -0 in_home "BERTH_SHARE_ARTIFACTS=$registry/site/layers srun -w n1 --container-image=$image true"
  expect_equal "$(converted_layers)" 0
  restore_site
  with_site_lines '[share]' "artifacts = \"$registry/site/nothing\""
  forget_images
  mark_log
  run -0 --separate-stderr contained cat /srv/hello
  expect_equal "$output" "hello from the image"
  expect_equal "$(converted_layers)" "$(layer_digests 12 | wc -l)"
}

@test "published: with share.enabled one node fetches each layer, and proves it, for both" {
  run -0 alice berth publish --quiet "$image"
  with_site_lines '[share]' 'enabled = true' 'artifacts = "referrers"'
  forget_images
  mark_log
  # shellcheck disable=SC2016
  run -0 in_home "rm -f at.*; srun -N2 --container-image=$image --container-mount-home sh -c \
    'cd && : > at.\$SLURM_NODEID; until [ -e at.0 ] && [ -e at.1 ]; do sleep 0.1; done'"
  expect_equal "$(converted_layers)" 0
  expect_equal "$(log_since GET /v2/debian/blobs/ | grep -o 'blobs/sha256:[0-9a-f]*' | sort | uniq -d)" ""
  for node in n1 n2; do run -0 alice srun -w "$node" berth verify; done
}

@test "published: berth mirror brings what it pulls" {
  with_site_lines '[share]' "artifacts = \"$registry/site/mirrored\""
  in_home "echo $registry/debian:12 > images.list"
  run -0 alice berth mirror --publish images.list
  expect_equal "$output" "$registry/debian:12 $(manifest_digest 12)"
  forget_images
  mark_log
  run -0 contained true
  expect_equal "$(converted_layers)" 0
  expect_equal "$(count_since GET "/v2/site/mirrored/manifests/$(artifact_tag)")" 1
}
