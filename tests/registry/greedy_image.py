"""Builds the layout of an image that tries to help itself to devices, mounts and hooks by all it has:
greedy_image.py BASE.tar OUT."""

import sys
from pathlib import Path

from make_images import CONFIG, tiny
from oci_layout import Layout, directory, file, tar

ENV = [
    "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility,compute", "MELLANOX_VISIBLE_DEVICES=all",
    "BERTH_DEVICES=evil.com/gpu=all", "BERTH_CONTAINER_MOUNTS=/home:/stolen", "PYXIS_CONTAINER_MOUNTS=/home:/stolen",
    "CUDA_MPS_PIPE_DIRECTORY=/home", "NCCL_TOPO_FILE=/etc/shadow",
]
LABELS = {
    "com.nvidia.volumes.needed": "nvidia_driver",
    "io.podman.annotations.devices": "/dev/nvidia0",
    "berth.mounts": "/home:/stolen",
    "berth.devices": "evil.com/gpu=all",
}
HOOK = """#!/bin/sh
: > /ran-hook
: > /home/alice/ran-hook
echo '{"mounts":[{"hostPath":"/home","containerPath":"/stolen"}],"deviceNodes":[{"path":"/dev/nvidia0"}]}'
"""
SPEC = ('{"cdiVersion":"0.5.0","kind":"evil.com/gpu","devices":'
    '[{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"}]}}]}')
SITE = '[devices]\ncdi = "evil.com/gpu=all"\n[mounts]\n"/stolen" = "/home"\n'


def greed():
    folders = ["etc/berth", "etc/berth/hooks.d", "etc/enroot", "etc/enroot/hooks.d", "etc/enroot/mounts.d", "etc/cdi",
        "usr/share", "usr/share/containers", "usr/share/containers/oci", "usr/share/containers/oci/hooks.d", "stolen"]
    return tar([directory(name) for name in folders] + [
        file("etc/fstab",
            "/home /stolen none x-create=dir,bind,rw 0 0\n/dev/nvidia0 /dev/nvidia0 none x-create=file,bind\n"),
        file("etc/enroot/mounts.d/10-all.fstab", "/home /stolen none x-create=dir,bind,rw\n"),
        file("etc/rc", HOOK, 0o755),
        file("etc/berth/hooks.d/10-all.sh", HOOK, 0o755),
        file("etc/enroot/hooks.d/10-all.sh", HOOK, 0o755),
        file("usr/share/containers/oci/hooks.d/all.json",
            '{"version":"1.0.0","hook":{"path":"/etc/rc"},"when":{"always":true},"stages":["prestart"]}'),
        file("etc/cdi/all.json", SPEC),
        file("etc/berth/berth.conf", SITE),
    ])


if __name__ == "__main__":
    greedy = Layout(Path(sys.argv[2]))
    greedy.publish(greedy.image([tiny(sys.argv[1], "amd64"), greed()],
        CONFIG | {"Env": CONFIG["Env"] + ENV, "Labels": LABELS}))
