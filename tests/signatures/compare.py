#!/usr/bin/env python3
"""Compares the verdicts of policies.json with skopeo's on the same files, or podman's: compare.py [--only NAME]
[--skopeo COMMAND] [--podman COMMAND] [--berth-pull PROGRAM].

Needs skopeo, docker-registry, gpg and openssl. An image, its signatures (cosign's attachments and GPG's in a
lookaside folder) and the keys are made here; each case is a `skopeo copy`, or a `podman pull`, under its policy. Prints
the cases that differ, and fails when there is one. COMMAND runs another skopeo or podman, such as one in a root of
another Debian that sees the same /tmp.
"""
import argparse
import base64
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
KINDS = {"a": "EC:P-256", "b": "EC:P-256", "p384": "EC:P-384", "rsa": "RSA", "ed": "ED25519"}


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, **more).stdout


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    """docker-registry on loopback."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.host = "127.0.0.1:%d" % free.getsockname()[1]
        config = folder / "registry.yml"
        config.write_text(f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{self.host}'}}\n"
            f"storage: {{filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}}}\n")
        self.process = subprocess.Popen(["docker-registry", "serve", str(config)], stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL)
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://{self.host}/v2/").close()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("compare.py: docker-registry does not answer")

    def ask(self, method, url, data=None, kind="application/octet-stream"):
        request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": kind})
        with urllib.request.urlopen(request) as answer:
            return answer.headers

    def blob(self, repository, data):
        place = self.ask("POST", f"http://{self.host}/v2/{repository}/blobs/uploads/", b"")["Location"]
        place += ("&" if "?" in place else "?") + "digest=" + digest_of(data)
        self.ask("PUT", place, data)
        return {"digest": digest_of(data), "size": len(data)}

    def manifest(self, repository, tag, document):
        data = json.dumps(document).encode()
        self.ask("PUT", f"http://{self.host}/v2/{repository}/manifests/{tag}", data, MANIFEST)
        return digest_of(data)

    def image(self, repository, tag, text):
        layer = bytes(1024)
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": [f"TEXT={text}"]},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]}}).encode()
        return self.manifest(repository, tag, {"schemaVersion": 2, "mediaType": MANIFEST,
            "config": dict(self.blob(repository, config), mediaType="application/vnd.oci.image.config.v1+json"),
            "layers": [dict(self.blob(repository, layer), mediaType="application/vnd.oci.image.layer.v1.tar")]})


class Scene:
    """The keys, an image and its surroundings in one folder."""

    def __init__(self, folder, skopeo, podman):
        self.folder, self.keys, self.skopeo, self.podman = folder, folder / "keys", skopeo, podman
        for name in ("keys", "gnupg", "registries.d", "lookaside"):
            (folder / name).mkdir(mode=0o700)
        self.registry = Registry(folder)
        self.make_keys()
        self.digest = self.registry.image("team/app", "1", "image")
        self.other = self.registry.image("team/app", "other", "other")
        (folder / "registries.d/all.yaml").write_text(
            f"default-docker:\n  lookaside: file://{folder}/lookaside\n  use-sigstore-attachments: true\n")
        # Where podman, which is not told, looks.
        (folder / ".config/containers").mkdir(parents=True)
        (folder / ".config/containers/registries.d").symlink_to(folder / "registries.d")

    def make_keys(self):
        for name, kind in KINDS.items():
            algorithm, _, curve = kind.partition(":")
            run("openssl", "genpkey", "-algorithm", algorithm, "-out", f"{self.keys}/{name}.pem",
                *(["-pkeyopt", f"ec_paramgen_curve:{curve}"] if curve else []))
            run("openssl", "pkey", "-in", f"{self.keys}/{name}.pem", "-pubout", "-out", f"{self.keys}/{name}.pub")
        (self.keys / "bad.pub").write_text("no key")
        for name in ("g", "h"):
            self.gpg("--passphrase", "", "--quick-generate-key", f"{name}@example.org", "ed25519", "sign")
            (self.keys / f"{name}.gpg").write_bytes(self.gpg("--export", f"{name}@example.org"))
        (self.keys / "g.asc").write_bytes(self.gpg("--armor", "--export", "g@example.org"))

    def gpg(self, *words, data=None):
        return run("gpg", "--homedir", str(self.folder / "gnupg"), "--batch", "--quiet", "--pinentry-mode", "loopback",
            *words, input=data)

    def filled(self, text):
        words = {"@HOST@": self.registry.host, "@KEYS@": str(self.keys), "@DIGEST@": self.digest}
        for name, file in (("a", "a.pub"), ("b", "b.pub"), ("g", "g.gpg")):
            words[f"@DATA:{name}@"] = base64.b64encode((self.keys / file).read_bytes()).decode()
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    def payload(self, one):
        kind = "atomic container signature" if one["kind"] == "gpg" else "cosign container image signature"
        document = {"critical": {"type": one.get("type", kind),
            "image": {"docker-manifest-digest": self.digest if one["of"] == "image" else self.other},
            "identity": {"docker-reference": one["name"]}}, "optional": one.get("optional", {})}
        if "extra" in one:
            document["extra"] = True
        return json.dumps(document).encode()

    def signed(self, key, data):
        file = self.folder / "payload"
        file.write_bytes(data)
        if KINDS[key] == "ED25519":
            return run("openssl", "pkeyutl", "-sign", "-rawin", "-in", str(file), "-inkey", f"{self.keys}/{key}.pem")
        return run("openssl", "dgst", "-sha256", "-sign", f"{self.keys}/{key}.pem", str(file))

    def attach(self, signatures):
        """Puts just these where skopeo looks."""
        folder = self.folder / ("lookaside/team/app@" + self.digest.replace(":", "="))
        for file in folder.glob("signature-*"):
            file.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        gpg = [one for one in signatures if one["kind"] == "gpg"]
        for number, one in enumerate(gpg, 1):
            (folder / f"signature-{number}").write_bytes(
                self.gpg("--local-user", one["key"] + "@example.org", "--sign", data=self.payload(one)))
        layers = []
        for one in signatures:
            if one["kind"] != "gpg":
                data = self.payload(one)
                signature = base64.b64encode(self.signed(one["key"], data)).decode()
                layers.append(dict(self.registry.blob("team/app", data),
                    mediaType="application/vnd.dev.cosign.simplesigning.v1+json",
                    annotations={"dev.cosignproject.cosign/signature": signature}))
        tag = self.digest.replace(":", "-") + ".sig"
        config = self.registry.blob("team/app", b"{}")
        # An attachment without layers is one without signatures.
        self.registry.manifest("team/app", tag, {"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers,
            "config": dict(config, mediaType="application/vnd.oci.image.config.v1+json")})

    def verdict(self, case):
        self.attach(json.loads(self.filled(json.dumps(case["signatures"]))))
        return self.judged(case)

    def judged(self, case):
        """Whatever is attached already."""
        policy = self.folder / "policy.json"
        policy.write_text(self.filled(case["text"] if "text" in case else json.dumps(case["policy"])))
        with tempfile.TemporaryDirectory() as out:
            answer = subprocess.run(self.command(str(policy), "docker://" + self.filled(case["image"]), out),
                capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            return "accept", ""
        invalid = "invalid policy in" in answer.stderr or "Error loading trust policy" in answer.stderr
        return "invalid" if invalid else "refuse", answer.stderr.strip()[-300:]


    def command(self, policy, image, out):
        if self.podman:
            return [*self.podman, "--root", f"{out}/root", "--runroot", f"{out}/run", "--storage-driver", "vfs", "pull",
                "-q", "--signature-policy", policy, "--tls-verify=false", image]
        return [*self.skopeo, "--policy", policy, "--registries.d", str(self.folder / "registries.d"), "copy",
            "--src-tls-verify=false", "-q", "--remove-signatures", image, f"dir:{out}"]


def exchange(scene, program):
    """Both ways: skopeo takes what `berth sign` has signed, and a pull takes what skopeo has signed."""
    policy = {"default": [{"type": "reject"}], "transports": {"docker": {scene.registry.host: []}}}
    def wanting(key):
        policy["transports"]["docker"][scene.registry.host] = [
            {"type": "sigstoreSigned", "keyPath": key, "signedIdentity": {"type": "matchExact"}}]
        return {"policy": policy, "signatures": [], "image": "@HOST@/team/app:1"}
    ours = wanting(f"{scene.keys}/a.pub")
    before, _ = scene.verdict(ours)
    run(program, "sign", "--key", f"{scene.keys}/a.pem", f"{scene.registry.host}/team/app:1")
    after, why = scene.judged(ours)
    secret = scene.folder / "secret"
    secret.write_text("secret")
    run(*scene.skopeo, "generate-sigstore-key", "--output-prefix", f"{scene.keys}/skopeo", "--passphrase-file", secret)
    policy_file, site = scene.folder / "policy.json", scene.folder / "berth.conf"
    policy_file.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    run(*scene.skopeo, "--policy", str(policy_file), "--registries.d", str(scene.folder / "registries.d"), "copy", "-q",
        "--src-tls-verify=false", "--dest-tls-verify=false", "--remove-signatures", "--sign-by-sigstore-private-key",
        f"{scene.keys}/skopeo.private", "--sign-passphrase-file", str(secret),
        f"docker://{scene.registry.host}/team/app:1", f"docker://{scene.registry.host}/team/theirs:1")
    site.write_text(f'[policy]\nsignatures = "{policy_file}"\n')
    def pulled(key):
        policy_file.write_text(json.dumps(wanting(f"{scene.keys}/{key}")["policy"]))
        answer = subprocess.run([program, "--store", str(scene.folder / "store"), "--site", str(site), "-q",
            f"{scene.registry.host}/team/theirs:1"], capture_output=True, text=True, check=False)
        return answer.returncode == 0, answer.stderr.strip()
    results = {"skopeo refuses what is not signed": (before == "refuse", before),
        "skopeo takes what berth has signed": (after == "accept", why),
        "berth refuses what skopeo has signed by another key": (not pulled("a.pub")[0], ""),
        "berth takes what skopeo has signed": pulled("skopeo.pub")}
    for name, (right, why) in results.items():
        print(f"{name}: {'yes' if right else 'no: ' + why}")
    return sum(not right for right, _ in results.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only")
    parser.add_argument("--skopeo", default="skopeo")
    parser.add_argument("--podman", default="", help="judges in place of skopeo")
    parser.add_argument("--berth-pull", help="program that signs and pulls, too")
    arguments = parser.parse_args()
    only, skopeo, podman = arguments.only, arguments.skopeo.split(), arguments.podman.split()
    cases = json.loads((pathlib.Path(__file__).parent / "policies.json").read_text())
    print(run(*(podman or skopeo), "--version", text=True).strip())
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        scene = Scene(pathlib.Path(folder), skopeo, podman)
        try:
            chosen = [case for case in cases if only in (None, case["name"])]
            for case in chosen:
                verdict, why = scene.verdict(case)
                if verdict != case["verdict"] or only:
                    different += verdict != case["verdict"]
                    print(f"{case['name']}: {verdict}, expected {case['verdict']}: {why}")
            if arguments.berth_pull:
                different += exchange(scene, arguments.berth_pull)
        finally:
            scene.registry.process.terminate()
            scene.registry.process.wait()
            subprocess.run(["gpgconf", "--homedir", f"{folder}/gnupg", "--kill", "all"], check=False)
    print(f"{len(chosen)} cases, {different} differ")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
