#!/usr/bin/env python3
"""Pulling a large image: wall and CPU seconds, memory and megabytes written, beside the arithmetic of its parts run
alone and beside the peers that are installed (podman only when run by an ordinary user).

usage: image.py BERTH_PULL [--scale S] [--cache DIR] [--json FILE]

Each row is a fresh process tree measured by the kernel's own accounting; ratios are to the sum of the parts (CPU) of
the same run.
"""
import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import ngc_image


def measured(command, **options):
    """Runs a command; wall, CPU seconds, peak RSS in MB, bytes written, of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        **options)
    _, errors = process.communicate()
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        sys.exit(f"{command}: exit code {process.returncode}: {errors.decode(errors='replace')[-2000:]}")
    return {"wall": wall, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "written": (after.ru_oublock - before.ru_oublock) * 512 / 1e6}


def with_memory(command, **options):
    """As measured(), through a small Python that reports the peak of this command alone."""
    code = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[2:]).returncode; "
            "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.exit(r)")
    with tempfile.NamedTemporaryFile("r") as report:
        row = measured([sys.executable, "-c", code, report.name] + command, **options)
        row["rss"] = int(report.read()) / 1024
    return row


def start_registry(folder, port, tls=""):
    """docker-registry on a port of the loopback address; all of them serve the same images."""
    config = os.path.join(folder, f"registry-{port}.yml")
    with open(config, "w", encoding="ascii") as file:
        file.write("version: 0.1\nlog: {level: error}\n"
            f"storage: {{filesystem: {{rootdirectory: {folder}/registry}}}}\n"
            f"http: {{addr: '127.0.0.1:{port}'{tls}}}\n")
    process = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            time.sleep(0.1)
    sys.exit("docker-registry does not answer")


@contextlib.contextmanager
def registries(folder):
    """One registry with plain HTTP, which all but one of the peers speak, and one with TLS."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
        "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"], check=True, stderr=subprocess.DEVNULL)
    processes = []
    try:
        processes.append(start_registry(folder, 5950))
        processes.append(start_registry(folder, 5951,
            f", tls: {{certificate: {folder}/cert.pem, key: {folder}/key.pem}}"))
        yield "127.0.0.1:5950", "127.0.0.1:5951"
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
            process.wait()


def push(layout, name):
    subprocess.run(["skopeo", "copy", "-q", "--dest-tls-verify=false", f"oci:{layout}", f"docker://{name}"], check=True)


def parts(layout, layers, scratch):
    """The work that no puller can avoid, each step alone, added up over the layers."""
    total = {"wall": 0.0, "cpu": 0.0}
    for digest, _, _ in layers:
        packed = os.path.join(layout, "blobs/sha256", digest)
        tar = os.path.join(scratch, "layer.tar")
        steps = [["sh", "-c", f"igzip -d -c {packed} > /dev/null"], ["openssl", "dgst", "-sha256", packed]]
        subprocess.run(["sh", "-c", f"igzip -d -c {packed} > {tar}"], check=True)
        steps += [["openssl", "dgst", "-sha256", tar],
                  ["sh", "-c", f"tar2sqfs -q -f -j 1 -c zstd -X level=1 {scratch}/layer.sqfs < {tar}"]]
        for step in steps:
            row = measured(step)
            total["wall"] += row["wall"]
            total["cpu"] += row["cpu"]
    return total


def berth_rows(pull, registry, work):
    store = os.path.join(work, "store")
    command = lambda tag: [pull, "--store", store, f"{registry}/ngc:{tag}"]
    rows = {"berth, cold": with_memory(command("base")), "berth, again": with_memory(command("base")),
        "berth, derived": with_memory(command("derived"))}
    size = sum(os.path.getsize(os.path.join(at, name))
        for at, _, names in os.walk(os.path.join(store, "layers")) for name in names)
    rows["berth, cold"]["stored"] = size / 1e6
    rows["berth, flatten"] = with_memory([pull, "import", "--store", store, "-o", f"{work}/flat.sqsh",
        f"{registry}/ngc:base"])
    rows["berth, flatten"]["stored"] = os.path.getsize(f"{work}/flat.sqsh") / 1e6
    os.unlink(f"{work}/flat.sqsh")
    if os.geteuid() == 0 and shutil.which("mkfs.xfs"):
        rows["the same, on xfs"] = shared_extents_row(pull, registry, work)
    return rows


def shared_extents_row(pull, registry, work):
    """The import with the store on a file system that lets two files share extents."""
    subprocess.run(["truncate", "-s", "12G", f"{work}/xfs.img"], check=True)
    subprocess.run(["mkfs.xfs", "-q", f"{work}/xfs.img"], check=True)
    os.mkdir(f"{work}/xfs")
    subprocess.run(["mount", "-o", "loop", f"{work}/xfs.img", f"{work}/xfs"], check=True)
    try:
        subprocess.run(["cp", "-a", f"{work}/store", f"{work}/xfs/store"], check=True)
        # Else the import would wait for the copy's bytes.
        subprocess.run(["sync", "-f", f"{work}/xfs"], check=True)
        row = with_memory([pull, "import", "--store", f"{work}/xfs/store", "-o", f"{work}/xfs/flat.sqsh",
            f"{registry}/ngc:base"])
        row["stored"] = os.path.getsize(f"{work}/xfs/flat.sqsh") / 1e6
        return row
    finally:
        subprocess.run(["umount", f"{work}/xfs"], check=True)
        os.unlink(f"{work}/xfs.img")


def published_site(registry, work):
    """A site that trusts one key about layers; their images may be anybody's."""
    key = f"{work}/signer.pem"
    subprocess.run(["openssl", "genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
        key], check=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", f"{work}/signer.pub"], check=True)
    signed = {"type": "sigstoreSigned", "keyPath": f"{work}/signer.pub", "signedIdentity": {"type": "matchRepository"}}
    with open(f"{work}/policy.json", "w", encoding="ascii") as file:
        json.dump({"default": [{"type": "insecureAcceptAnything"}],
            "transports": {"docker": {f"{registry}/layers": [signed]}}}, file)
    with open(f"{work}/published.conf", "w", encoding="ascii") as file:
        file.write(f'[share]\nartifacts = "{registry}/layers"\n[policy]\nsignatures = "{work}/policy.json"\n')
    return f"{work}/published.conf", key


def until_usable(command):
    """Wall and CPU seconds until a pull of a start says that the image can be used, and the CPU seconds until the
    program ends, which proves then what it has brought."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        while not (line := process.stdout.readline()).startswith("image "):
            if not line or line.startswith("error "):
                sys.exit(f"{command}: {line}")
        wall = time.perf_counter() - start
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    ticks = os.sysconf("SC_CLK_TCK")
    usable = {"wall": wall, "cpu": (int(fields[11]) + int(fields[12])) / ticks}
    return usable, {"wall": time.perf_counter() - start, "cpu": usage.ru_utime + usage.ru_stime}


def published_rows(pull, registry, work):
    """`berth publish`, pulls of what it brought, proved before it is used and afterwards, and what no such pull can
    avoid: its bytes by curl, hashed, in a file that is written round the page cache."""
    site, key = published_site(registry, work)
    place = ["--store", f"{work}/store", "--site", site]
    name = f"{registry}/ngc:base"
    rows = {"berth, publish": with_memory([pull, "publish", *place, "--quiet", "--sign", key, name])}
    shutil.rmtree(f"{work}/store")
    rows["berth, published"] = with_memory([pull, *place, name])
    shutil.rmtree(f"{work}/store")
    rows["berth, signed"], rows["and proved"] = until_usable([pull, *place, "--report", "--prove-later", name])
    script = (f"set -e -o pipefail; for blob; do curl -sf http://{registry}/v2/layers/blobs/$blob | "
              "tee >(openssl dgst -sha256) | dd of=$0 bs=1M iflag=fullblock oflag=direct status=none; done")
    rows["curl, openssl, dd"] = with_memory(["bash", "-c", script, f"{work}/blob", *published_blobs(registry)])
    os.unlink(f"{work}/blob")
    return rows


def published_blobs(registry):
    def manifest(repository, reference):
        request = urllib.request.Request(f"http://{registry}/v2/{repository}/manifests/{reference}",
            headers={"Accept": "application/vnd.oci.image.manifest.v1+json"})
        with urllib.request.urlopen(request) as answer:
            return answer.headers["Docker-Content-Digest"], json.load(answer)
    digest, _ = manifest("ngc", "base")
    _, artifact = manifest("layers", digest.replace(":", "-") + ".berth")
    return [blob["digest"] for blob in artifact["layers"]]


def unpacked_rows(registry, work):
    """The usual two steps of a script: unpack by skopeo and umoci, then one squashfs out of the tree."""
    bundle = f"{work}/bundle"
    script = (f"skopeo copy -q --src-tls-verify=false docker://{registry}/ngc:base oci:{work}/peer:base && "
              f"umoci unpack --rootless --image {work}/peer:base {bundle}")
    rows = {"skopeo + umoci": with_memory(["sh", "-c", script])}
    if shutil.which("mksquashfs"):
        rows["mksquashfs of that"] = with_memory(["mksquashfs", f"{bundle}/rootfs", f"{work}/peer.sqsh", "-quiet",
            "-no-progress", "-comp", "zstd", "-Xcompression-level", "1", "-b", "131072"])
        rows["mksquashfs of that"]["stored"] = os.path.getsize(f"{work}/peer.sqsh") / 1e6
        os.unlink(f"{work}/peer.sqsh")
    subprocess.run(["chmod", "-R", "u+rwX", bundle], check=True)
    shutil.rmtree(f"{work}/peer")
    shutil.rmtree(bundle)
    return rows


def charliecloud_row(registry, work):
    """Of a registry with TLS: it speaks nothing else."""
    storage = f"{work}/charliecloud"
    row = with_memory(["ch-image", "--no-cache", "--tls-no-verify", "-s", storage, "pull", f"{registry}/ngc:base"])
    subprocess.run(["chmod", "-R", "u+rwX", storage], check=True)
    shutil.rmtree(storage)
    return row


def podman_row(registry, work):
    """Without root: with the caller's range of subordinate ids, or, where there is none, with all files owned by the
    caller."""
    with tempfile.TemporaryDirectory(prefix="berth-") as runroot:  # it takes no path of over 50 characters
        place = ["--root", f"{work}/podman", "--runroot", runroot, "--storage-driver", "overlay", "--storage-opt",
            "ignore_chown_errors=true"]
        environment = {**os.environ, "XDG_RUNTIME_DIR": runroot}
        row = with_memory(["podman", *place, "pull", "-q", "--tls-verify=false", f"{registry}/ngc:base"],
            env=environment)
        # It leaves a process that holds its mounts, and files of subordinate ids, which only a user namespace with all
        # of them may remove.
        with open(f"{runroot}/libpod/tmp/pause.pid", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGKILL)
        subprocess.run(["unshare", "--map-root-user", "--map-auto", "rm", "-rf", f"{work}/podman"], check=True)
    return row


def peer_rows(registry, tls_registry, work):
    """What is installed of the peers; a peer that fails is an error."""
    rows = {}
    if shutil.which("skopeo") and shutil.which("umoci"):
        rows.update(unpacked_rows(registry, work))
    if shutil.which("ch-image"):
        rows["ch-image pull"] = charliecloud_row(tls_registry, work)
    if shutil.which("podman") and os.geteuid() != 0:
        rows["podman pull"] = podman_row(registry, work)
    return rows


def show(rows, floor):
    cold = rows["berth, cold"]["wall"]
    print(f"{'':18}{'wall s':>9}{'CPU s':>9}{'RSS MB':>9}{'written':>9}{'stored':>8}"
        f"{'CPU/parts':>11}{'wall/CPU':>10}{'wall/cold':>11}")
    for name, row in rows.items():
        rss, written, stored = (f"{row[key]:.0f}" if key in row else "-" for key in ("rss", "written", "stored"))
        print(f"{name:18}{row['wall']:9.2f}{row['cpu']:9.2f}{rss:>9}{written:>9}{stored:>8}{row['cpu'] / floor:11.2f}"
              f"{row['wall'] / max(row['cpu'], 1e-9):10.2f}{row['wall'] / cold:11.2f}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("pull")
    options.add_argument("--scale", type=float, default=1.0)
    options.add_argument("--cache", default="/var/tmp/berth-bench")
    options.add_argument("--json")
    options = options.parse_args()
    layout = os.path.join(options.cache, f"layout-{options.scale}")
    facts = os.path.join(layout, "layers.json")
    if not os.path.exists(facts):
        shutil.rmtree(layout, ignore_errors=True)
        layers = ngc_image.write_layers(layout, options.scale)
        with open(facts, "w", encoding="ascii") as file:
            json.dump(layers, file)
    with open(facts, encoding="ascii") as file:
        layers = json.load(file)
    with tempfile.TemporaryDirectory(prefix="berth-bench-", dir=options.cache) as work:
        with registries(work) as (registry, tls_registry):
            ngc_image.write_image(layout, layers)
            push(layout, f"{registry}/ngc:base")
            ngc_image.write_image(layout, layers + [ngc_image.write_small_layer(layout)], b"derived")
            push(layout, f"{registry}/ngc:derived")
            floor = parts(layout, layers, work)
            rows = {"the parts, alone": floor, **berth_rows(os.path.abspath(options.pull), registry, work),
                **published_rows(os.path.abspath(options.pull), registry, work),
                **peer_rows(registry, tls_registry, work)}
    show(rows, floor["cpu"])
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
