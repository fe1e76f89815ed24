#!/usr/bin/env bats
# .ci/image makes an image in which Berth is built, of what is committed: by Debian's mmdebstrap and buildah, without a
# registry and without a container runtime.

bats_require_minimum_version 1.5.0

setup_file() { export repo; repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd); }

teardown_file() {
  buildah rm berth-image-test > /dev/null
  buildah rmi berth-image-test > /dev/null
}

@test "the image has a program that was built in it, and is a Debian 12 in which others can be built" {
  "$repo/.ci/image" build/berth-mig berth-image-test
  buildah from --name berth-image-test berth-image-test
  run -0 buildah run --isolation chroot berth-image-test build/berth-mig --help
  run -0 buildah run --isolation chroot berth-image-test sh -c '. /etc/os-release; echo "$VERSION_ID"; git --version'
  [[ ${lines[0]} == 12 && ${lines[1]} == "git version"* ]]
}
