"""Builds an OCI layout with stand-ins for the public images that Pyxis's tests name.

make_images.py BASE.tar APT.tar OUT: BASE.tar is a Debian root, APT.tar a layer with an archive of packages for apt.
Each line of the output is the name of an image in the layout and in the registry.
"""

import functools
import json
import sys
from pathlib import Path

import oci_layout
from oci_layout import Layout, directory, file, tar

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

UBUNTU = {
    "12.04": "Ubuntu precise (12.04.5 LTS)",
    "14.04": "Ubuntu 14.04.6 LTS",
    "16.04": "Ubuntu 16.04.7 LTS",
    "18.04": "Ubuntu 18.04.6 LTS",
    "20.04": "Ubuntu 20.04.6 LTS",
    "22.04": "Ubuntu 22.04.5 LTS",
    "24.04": "Ubuntu 24.04.2 LTS",
    "26.04": "Ubuntu 26.04 LTS (Resolute Raccoon)",
    "latest": "Ubuntu 24.04.2 LTS",
}
CENTOS = {"5": "CentOS release 5.11 (Final)", "6": "CentOS release 6.10 (Final)",
    "7": "CentOS Linux release 7.9.2009 (Core)", "8": "CentOS Linux release 8.4.2105"}
CUDA = {"10.2-base": "18.04", "11.8.0-base-ubuntu20.04": "20.04", "11.8.0-base-ubuntu22.04": "22.04",
    "12.5.1-runtime-ubuntu24.04": "24.04", "12.9.1-base-ubuntu24.04": "24.04", "12.9.1-runtime-ubuntu24.04": "24.04"}

CUDA_ENTRYPOINT = "#!/bin/bash\nprintf '\\n==========\\n== CUDA ==\\n==========\\n\\n'\nexec \"$@\"\n"
DOCKER_ENTRYPOINT = """#!/bin/sh
: "${DOCKER_HOST:=tcp://docker:237$([ -n "$DOCKER_TLS_VERIFY" ] && echo 6 || echo 5)}"
export DOCKER_HOST
exec "$@"
"""
NGINX_ENTRYPOINT = """#!/bin/sh
sed -i 's,^    listen       80;$,&\\n    listen  [::]:80;,' /etc/nginx/conf.d/default.conf
exec "$@"
"""


def program(path, text):
    return file(path, text, 0o755)


def release(text):
    return [directory("usr"), directory("usr/lib"),
        file("usr/lib/os-release", f'NAME="Ubuntu"\nPRETTY_NAME="{text}"\n')]


def images(apt):
    """Of each image its name, the layers above the base, and its configuration."""
    for tag, text in UBUNTU.items():
        yield f"library/ubuntu:{tag}", [apt, tar(release(text))], {"Env": [PATH], "Cmd": ["/bin/bash"]}
    for tag, text in CENTOS.items():
        layer = tar([directory("etc"), file("etc/redhat-release", text + "\n")])
        yield f"library/centos:{tag}", [layer], {"Env": [PATH]}
    for tag, version in CUDA.items():
        layer = tar(release(UBUNTU[version]) + [directory("opt"), directory("opt/nvidia"),
            program("opt/nvidia/nvidia_entrypoint.sh", CUDA_ENTRYPOINT)])
        yield f"nvidia/cuda:{tag}", [layer], {
            "Env": [PATH, f"CUDA_VERSION={tag.partition('-')[0]}", "NVIDIA_DISABLE_REQUIRE=1",
                "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64"],
            "Entrypoint": ["/opt/nvidia/nvidia_entrypoint.sh"] if "runtime" in tag else None}
    local = [directory("usr"), directory("usr/local"), directory("usr/local/bin")]
    yield "library/docker:26.1.0-dind-rootless", [tar(local + [
        program("usr/local/bin/docker-entrypoint.sh", DOCKER_ENTRYPOINT)])], {
        "Env": [PATH], "Entrypoint": ["docker-entrypoint.sh"]}
    yield "library/nginx:1.19.1", [tar(local + [
        program("usr/local/bin/nginx", "#!/bin/sh\necho 'nginx version: nginx/1.19.1' >&2\n"),
        program("docker-entrypoint.sh", NGINX_ENTRYPOINT), directory("etc"), directory("etc/nginx"),
        directory("etc/nginx/conf.d"),
        file("etc/nginx/conf.d/default.conf", "server {\n    listen       80;\n}\n")])], {
        "Env": [PATH], "Entrypoint": ["/docker-entrypoint.sh"]}
    yield "library/redis:5.0.8", [tar(local + [
        program("usr/local/bin/redis-server", "#!/bin/sh\necho 'Redis server v=5.0.8'\n")])], {"Env": [PATH]}
    yield "library/rabbitmq:3.8.3", [tar([directory("opt"), directory("opt/rabbitmq"), directory("opt/rabbitmq/sbin"),
        program("opt/rabbitmq/sbin/rabbitmqctl", "#!/bin/sh\necho 3.8.3\n")])], {
        "Env": [PATH.replace("=", "=/opt/rabbitmq/sbin:")]}
    workspace = tar([directory("workspace")])
    for name, version in {"nvidia/pytorch:20.02-py3": "1.5.0a0+3bbb36e", "nvidia/pytorch:22.04-py3": "1.12.0a0+bd13bc6",
        "pytorch/pytorch:1.8.1-cuda11.1-cudnn8-runtime": "1.8.1"}.items():
        yield name, [workspace], {"Env": [PATH, f"PYTORCH_VERSION={version}"], "WorkingDir": "/workspace"}


def main(base, apt, out):
    # Most layers are those of several images.
    oci_layout.COMPRESSORS["+zstd"] = functools.cache(oci_layout.COMPRESSORS["+zstd"])
    layout = Layout(out)
    below, archive = Path(base).read_bytes(), Path(apt).read_bytes()
    manifests = []
    for number, (name, layers, config) in enumerate(images(archive)):
        described = layout.image([below, *layers], {key: value for key, value in config.items() if value}, "+zstd")
        manifests.append(dict(described, annotations={"org.opencontainers.image.ref.name": f"image-{number}"}))
        print(f"image-{number}", name)
    (layout.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))


if __name__ == "__main__":
    main(*sys.argv[1:4])
