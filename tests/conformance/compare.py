"""Compares what Berth makes of images, as people have them, with what others make of them: compare.py BUILD [CASE...].

Prints TAP. Needs no rights. Each case of cases.py has an image and a reference of Debian that reads it: unsquashfs, GNU
tar, bsdtar, umoci, skopeo. `berth import` has to make the same tree of it: names, kinds, modes, sizes, content, targets
of symlinks, and which names are one file.
"""

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "registry"))
sys.path.insert(0, str(Path(__file__).parent.parent / "hostile"))
from cases import CASES  # noqa: E402


class Difference(Exception):
    pass


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    if done.returncode != 0:
        raise Difference(f"{Path(words[0]).name}: {done.stderr.decode(errors='replace').strip()[-400:]}")
    return done.stdout


def described(path, first_names):
    about = path.lstat()
    kind = stat.S_IFMT(about.st_mode)
    out = {"kind": kind, "mode": 0 if kind == stat.S_IFLNK else stat.S_IMODE(about.st_mode)}
    if kind == stat.S_IFLNK:
        out["target"] = os.readlink(path)
    if kind == stat.S_IFREG:
        out["size"] = about.st_size
        out["content"] = hashlib.sha256(path.read_bytes()).hexdigest()
        out["same file as"] = first_names.setdefault(about.st_ino, str(path.name))
    return out


def tree(folder):
    """{path: what is there}, without what is written into an image for Enroot."""
    first_names = {}
    return {str(path.relative_to(folder)): described(path, first_names) for path in sorted(Path(folder).rglob("*"))}


def compare(expected, got):
    for path in sorted(expected.keys() | got.keys()):
        if expected.get(path) != got.get(path):
            raise Difference(f"{path}: {expected.get(path, 'nothing')} became {got.get(path, 'nothing')}")
    if not expected:
        raise Difference("the reference has read nothing")


class Scene:
    """A folder of a case, Berth's import, and the references."""

    def __init__(self, build, folder):
        self.berth, self.folder = Path(build).resolve() / "berth", Path(folder)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "LANG": "C.UTF-8",
            "BERTH_STORE_PATH": str(self.folder / "store")}

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def imported(self, reference, *options):
        image = self.folder / "imported.sqsh"
        run(self.berth, "import", "-q", "--plain", *options, "-o", image, reference, env=self.environment)
        return self.by_unsquashfs(image)

    def pulled(self, reference):
        run(self.berth, "pull", "-q", reference, env=self.environment)

    def by_unsquashfs(self, image, *options, folder=None):
        """`folder`: where something is already that it is unpacked over."""
        out = folder or self.folder / f"unsquashfs-{Path(image).name}"
        run("unsquashfs", "-no-progress", "-quiet", "-no-xattrs", "-force", *options, "-d", out, image)
        return tree(out)

    def by_tar(self, archive, *options):
        out = self.folder / "tar"
        out.mkdir()
        run("tar", "-C", out, "-x", "-p", *options, "-f", archive)
        return tree(out)

    def by_bsdtar(self, archive):
        out = self.folder / "bsdtar"
        out.mkdir()
        run("bsdtar", "-C", out, "-x", "-p", "-f", archive)
        return tree(out)

    def by_umoci(self, layout):
        run("umoci", "raw", "unpack", "--rootless", "--image", f"{layout}:x", self.folder / "umoci")
        return tree(self.folder / "umoci")

    def by_skopeo(self, source, *options):
        """A layout of it, unpacked by umoci."""
        run("skopeo", "--insecure-policy", "copy", "-q", *options, source, f"oci:{self.folder}/skopeo:x")
        return self.by_umoci(self.folder / "skopeo")

    def refusal(self, reference):
        done = subprocess.run([self.berth, "import", "-q", "-o", self.folder / "refused.sqsh", str(reference)],
            stderr=subprocess.PIPE, env=self.environment)
        if done.returncode == 0:
            raise Difference("it is not refused")
        return done.stderr.decode()


def main():
    os.umask(0o022)
    build, chosen = sys.argv[1], sys.argv[2:] or list(CASES)
    print(f"1..{len(chosen)}")
    failed = 0
    for number, name in enumerate(chosen, 1):
        with tempfile.TemporaryDirectory(prefix="berth-conformance.") as folder:
            try:
                compare(*CASES[name](Scene(build, folder)))
                print(f"ok {number} - the same tree as the reference's: {name}", flush=True)
            except Difference as difference:
                failed += 1
                print(f"not ok {number} - the same tree as the reference's: {name}\n# {difference}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
