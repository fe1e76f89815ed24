"""The images of the cases, made in alice's folder e2e of an image of the box's registry."""

import functools
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/hostile"), str(ROOT / "tests/registry")]
from make_corpus import sif  # noqa: E402

LABELS = """{
	"MAINTAINER": "\\"A <a@example.org>\\"",
	"e2e": "awesome",
	"E2E": "AWESOME",
	"hi": "\\"hello world\\"",
	"HI": "\\"HELLO WORLD\\"",
	"first.build.labels": "first",
	"org.label-schema.usage": "/.singularity.d/runscript.help",
	"org.label-schema.usage.apptainer.runscript.help": "/.singularity.d/runscript.help",
	"org.label-schema.usage.singularity.deffile.bootstrap": "docker"
}
"""
FILES = {
    ".singularity.d/env/90-environment.sh": "export GOPATH=/go\nexport PATH=$PATH:$GOPATH/bin:/usr/local/go/bin\n"
        "export CGO_ENABLED=0\n",
    ".singularity.d/env/91-environment.sh": 'export hello="world"\n',
    ".singularity.d/runscript": '#!/bin/sh\n\necho "Running command: $*"\nexec "$@"\n',
    ".singularity.d/startscript": '#!/bin/sh\n\nexec "$@"\n',
    ".singularity.d/test": "#!/bin/sh\n\ntest -d /\ntest -d /etc\n",
    ".singularity.d/runscript.help": "What this image is for.\nIt has two lines.\n",
    ".singularity.d/Singularity": "bootstrap: docker\nfrom: debian:12\n",
    ".singularity.d/labels.json": LABELS,
    "scif/apps/hello/scif/runscript": '#!/bin/sh\n\necho "hello"\n',
    "scif/apps/hello/scif/test": '#!/bin/sh\n\necho "A TEST"\n',
    "scif/apps/hello/scif/runscript.help": "This is the help for hello.\n",
    "scif/apps/hello/scif/labels.json": '{"HELLOTHISIS": "hello"}\n',
    "scif/apps/hello/scif/env/90-environment.sh": "HELLOTHISIS=hello\nexport HELLOTHISIS\n",
    "scif/apps/world/scif/runscript": '#!/bin/sh\n\necho "world"\n',
    "scif/apps/foo/scif/runscript": "#!/bin/sh\n\necho foo\n",
    "scif/apps/foo/filefoo.exec": "",
    "scif/apps/bar/scif/runscript": "#!/bin/sh\n\necho bar\n",
    "scif/apps/bar/filebar.exec": "",
}
# For the binds by links.
LINKS = {"var/etc": "/etc", "etc/madness": "/madness", "etc/relative-slink": "../usr/share/zoneinfo/Etc/UTC",
    "etc/absolute-slink": "/usr/share/zoneinfo/Etc/UTC"}

MAKE = """set -e
mkdir -p ~/e2e; cd ~/e2e
apptainer --quiet pull --force --name d.sif docker://REGISTRY/debian:12
berth import --quiet --force --plain -o d.sqsh REGISTRY/debian:12
unsquashfs -q -n -d box -no-xattrs d.sqsh > /dev/null 2>&1 || test -d box/bin
chmod -R u+w box
rm -f box/etc/rc box/etc/environment
mkdir -p box/madness box/scif/data/foo/output box/scif/data/foo/input box/usr/share/zoneinfo/Etc
touch box/etc/issue box/usr/share/zoneinfo/Etc/UTC
"""
# Signed files, and a keyring with the key.
SIGN = """set -e
cd ~/e2e; mkdir -m 0700 gpg keyring
own() { gpg --homedir gpg --batch --quiet "$@"; }
own --passphrase "" --quick-generate-key "A Signer <a@example.org>" ed25519 sign never
own --armor --export a@example.org > a.asc
own --export a@example.org > a.gpg
APPTAINER_KEYSDIR=$PWD/keyring apptainer --quiet key import a.asc
sign() { cp -n d.sif $1; python3 READER sign $1 gpg a@example.org ${@:2}; }
sign signed.sif
sign older_group.sif --legacy
sign older_object.sif --legacy 2
for object in 1 2 3 4; do sign older_all.sif --legacy $object; done
gpgconf --homedir gpg --kill all
openssl genpkey -algorithm ED25519 -out own.pem
openssl pkey -in own.pem -pubout -out k.pem
cp -n d.sif enveloped.sif
python3 READER envelope enveloped.sif own.pem
"""
REMOVE = "cd ~ && chmod -R u+rwx e2e 2> /dev/null; rm -rf e2e"


@functools.cache
def uid(enter):
    return enter("alice", "id", "-u").stdout.strip()


@functools.cache
def digest(registry):
    accepted = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    request = urllib.request.Request(f"http://{registry}/v2/debian/manifests/12", headers=accepted, method="HEAD")
    with urllib.request.urlopen(request) as answer:
        return answer.headers["Docker-Content-Digest"]


def succeed(enter, user, script):
    done = enter(user, "bash", "-c", script)
    if done.returncode != 0:
        raise SystemExit(f"run.py: the images cannot be made: {done.stdout}{done.stderr}")


def write_files():
    script = []
    for path, content in FILES.items():
        script.append(f"mkdir -p box/{Path(path).parent}; cat > box/{path} <<'END_OF_FILE'\n{content}END_OF_FILE")
        if not path.endswith((".json", ".sh", ".help", "Singularity")):
            script.append(f"chmod 755 box/{path}")
    script += [f"ln -sfn {target} box/{path}" for path, target in LINKS.items()]
    return "\n".join(script)


@contextmanager
def made(enter, box, registry):
    """`apptainer` and `singularity` are links in the box as long as this lasts, and the images are there."""
    succeed(enter, "root", "for name in apptainer singularity; do ln -sf berth /usr/bin/$name; done")
    try:
        enter("alice", "bash", "-c", REMOVE)
        succeed(enter, "alice", MAKE.replace("REGISTRY", registry) + write_files() +
            "\nmksquashfs box i.sqfs -quiet -no-progress -comp zstd -Xcompression-level 1 > /dev/null")
        # With the tag latest, which no image has that the other tests look at.
        succeed(enter, "alice", f"skopeo copy -q --src-tls-verify=false --dest-tls-verify=false "
            f"docker://{registry}/debian:12 docker://{registry}/apptainer/small:latest")
        folder = box / "home/alice/e2e"
        (folder / "i.sif").write_bytes(sif((folder / "i.sqfs").read_bytes()))
        succeed(enter, "root", "chown alice: /home/alice/e2e/i.sif; chmod 755 /home/alice/e2e/i.sif")
        succeed(enter, "alice", "cd ~/e2e && cp i.sif s.sif && truncate -s 1M e.img && "
            "printf '\\x53\\xef' | dd of=e.img bs=1 seek=1080 conv=notrunc status=none && "  # the mark of ext3
            "mkdir marker && touch marker/marker && mksquashfs marker marker.sqfs -quiet -no-progress && "
            f"for tag in 1 latest; do apptainer -q push i.sif oras://{registry}/apptainer/sif:$tag; done")
        succeed(enter, "alice", SIGN.replace("READER", str(ROOT / "tests/slurm/sif_file.py")))
        yield
    finally:
        enter("alice", "bash", "-c", "apptainer -s instance stop --all --force; rm -rf ~/.apptainer; " + REMOVE)
        enter("root", "rm", "-f", "/usr/bin/apptainer", "/usr/bin/singularity")
