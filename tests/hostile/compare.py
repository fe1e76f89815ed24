"""Compares what Berth makes of the images in odd_layers.py with what umoci makes of them: compare.py BUILD UID.

Prints TAP. To be run as root.

Each image is unpacked by `umoci raw unpack` and listed; the same list must come of `berth import` by way of unsquashfs,
and of a container that the ordinary user UID starts from the same layout (pull, merge, FUSE server).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "registry"))
from oci_layout import Layout  # noqa: E402
from odd_layers import CASES, archive  # noqa: E402

FIELDS = ["type", "mode", "uid", "gid", "mtime", "size", "links", "content"]
# In a container everything belongs to the caller, and what root could open may be closed.
OWNERS = {"uid", "gid"}


class Difference(Exception):
    pass


def parsed(text):
    """{path: {field: value}} of what list_tree prints."""
    out = {}
    for line in text.splitlines():
        path, *values = line.split("\t")
        out[path] = dict(zip(FIELDS, values), xattrs=values[len(FIELDS):])
        if out[path]["type"] == "l":
            out[path].update(mode="777")  # of no meaning
    return out


def below_t(tree):
    """Without what a container or an image file has beside the image's own tree."""
    return {path: fields for path, fields in tree.items() if path in (".", "t") or path.startswith("t/")}


def open_to_owner(tree):
    """Without what lies in a directory that its owner may not enter.

    An ordinary user in a container sees none of it.
    """
    closed = [path + "/" for path, fields in tree.items()
        if fields["type"] == "d" and int(fields["mode"], 8) & 0o500 != 0o500]
    return {path: fields for path, fields in tree.items() if not path.startswith(tuple(closed))}


def escaped(name):
    data = name.encode("utf-8", "surrogateescape")
    return "".join(chr(c) if 32 < c < 127 and c != 92 else f"\\x{c:02x}" for c in data)


class Scene:
    def __init__(self, build, uid, folder):
        self.build, self.uid, self.folder = Path(build).resolve(), uid, Path(folder)
        self.home = self.folder / "home"
        self.home.mkdir()
        os.chown(self.home, uid, uid)
        os.chmod(folder, 0o755)

    def run(self, *words, **more):
        return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def checked(self, *words, **more):
        done = self.run(*words, **more)
        if done.returncode != 0:
            raise Difference(f"{Path(words[0]).name}: {done.stderr.decode(errors='replace').strip()[-400:]}")
        return done.stdout.decode()

    def listed(self, folder):
        return parsed(self.checked(self.build / "tests" / "list_tree", folder))

    def layout(self, name, layers):
        layout = Layout(self.folder / name / "layout")
        image = layout.image([archive(layer) for layer in layers], {"Cmd": ["/lister"]})
        layout.publish(dict(image, annotations={"org.opencontainers.image.ref.name": "x"}))
        return self.folder / name / "layout"

    def by_umoci(self, layout):
        self.checked("umoci", "raw", "unpack", "--image", f"{layout}:x", layout.parent / "umoci")
        return self.listed(layout.parent / "umoci")

    def by_tar(self, layout, layers):
        folder = layout.parent / "tar"
        folder.mkdir()
        for layer in layers:
            self.checked("tar", "-C", folder, "-xp", "--numeric-owner", "-f", "-", input=archive(layer))
        return self.listed(folder)

    def by_import(self, layout):
        image = layout.parent / "x.sqsh"
        self.checked(self.build / "berth", "import", "-o", image, f"oci:{layout}:x",
            env={"PATH": os.environ["PATH"], "BERTH_STORE_PATH": str(self.folder / "store"), "HOME": "/nonexistent"})
        # unsquashfs gives setuid bits and devices to root alone; it is root here.
        self.checked("unsquashfs", "-no-progress", "-quiet", "-d", layout.parent / "import", image)
        return below_t(self.listed(layout.parent / "import"))

    def by_container(self, layout):
        user = ["setpriv", "--reuid", self.uid, "--regid", self.uid, "--clear-groups", "--", "env", "-i",
            f"HOME={self.home}", "PATH=/usr/bin:/bin", "BERTH_MOUNT_MODES=image"]
        out = self.checked(*user, self.build / "berth", "run", "--mount", f"{self.build}/tests/list_tree:/lister",
            f"oci:{layout}:x", "/lister", "/")
        return below_t(parsed(out))


def differing(expected, got, fields):
    """The fields that differ; what one of them could not read says nothing."""
    return [name for name in fields if expected[name] != got[name] and "unreadable" not in (expected[name], got[name])
        and ["unreadable"] not in (expected[name], got[name])]


def compare(expected, got, fields, exceptions):
    """Throws Difference unless they are equal but for the exceptions; returns those of them that were seen."""
    seen = set()
    allowed = {escaped(path): (path, what) for path, (what, _) in exceptions.items()}
    for path in sorted(expected.keys() | got.keys()):
        original, what = allowed.get(path, (None, ""))
        if path not in got or path not in expected:
            problem = "absent" if path not in got else "extra"
        else:
            problem = ",".join(differing(expected[path], got[path], fields))
        if not problem:
            continue
        if problem != what:
            raise Difference(f"{path}: {problem} differs: {expected.get(path)} became {got.get(path)}")
        seen.add(original)
    return seen


def check_refused(scene, layout):
    for view in (scene.by_import, scene.by_container):
        try:
            view(layout)
        except Difference:
            continue
        raise Difference("it is not refused")


def expectation(scene, layout, layers, exceptions):
    """What the peer makes of it; nothing where the table says that it cannot."""
    if "by tar" in exceptions:
        return scene.by_tar(layout, layers)
    if "only here" not in exceptions:
        return scene.by_umoci(layout)
    try:
        scene.by_umoci(layout)
    except Difference:
        return None
    raise Difference("umoci takes it: the exception is not needed")


def check(scene, name):
    layers, exceptions = CASES[name]
    layout = scene.layout(name, layers)
    if "refused" in exceptions:
        return check_refused(scene, layout)
    expected = expectation(scene, layout, layers, exceptions)
    imported, inside = scene.by_import(layout), scene.by_container(layout)
    inside["."] = dict(imported["."])  # of the overlay and its mount points
    fields = [*FIELDS, "xattrs"]
    # Two views of Berth are never different.
    compare(open_to_owner(imported), inside, [field for field in fields if field not in OWNERS], {})
    if expected is None:
        return
    differences = {path: reason for path, reason in exceptions.items() if path != "by tar"}
    # The time of the root is the peer's own, unless the image has an entry for it.
    expected["."]["mtime"] = imported["."]["mtime"]
    if "*" in differences:
        return compare_different(expected, imported, fields)
    unused = differences.keys() - compare(expected, imported, fields, differences)
    if unused:
        raise Difference(f"nothing differs at {unused}: the exception is not needed")


def compare_different(expected, imported, fields):
    try:
        compare(expected, imported, fields, {})
    except Difference:
        return
    raise Difference("nothing differs: the exception is not needed")


def main():
    build, uid = sys.argv[1], int(sys.argv[2])
    chosen = sys.argv[3:] or list(CASES)
    print(f"1..{len(chosen)}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="berth-compare.") as folder:
        scene = Scene(build, uid, folder)
        for number, name in enumerate(chosen, 1):
            try:
                check(scene, name)
                print(f"ok {number} - the same tree as umoci's: {name}", flush=True)
            except Difference as difference:
                failed += 1
                print(f"not ok {number} - the same tree as umoci's: {name}\n# {difference}", flush=True)
            shutil.rmtree(Path(folder) / name)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
