#!/usr/bin/env python3
"""Reads SIF files by their specification (github.com/apptainer/sif, pkg/sif), in no way as Berth does: what is written
is compared with what another reader finds.

usage: sif_file.py list FILE             a line for each object: ID TYPE GROUP LINK OFFSET SIZE NAME
       sif_file.py dump FILE ID          its bytes
       sif_file.py check FILE            each field of the header and descriptors, "good" at the end
       sif_file.py sign FILE HOME USER [--legacy [ID]]   adds a signature of group 1 by gpg, as the specification has
                                                         it; in the older form also of an object alone
       sif_file.py envelope FILE KEY                the same in a DSSE envelope, by a private key in PEM
       sif_file.py overlay FILE SQUASHFS GROUP      adds an overlay partition
"""
import base64
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile

HEADER = struct.Struct("<32s10s3s3s16s8q")
DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
GROUP = 0xF0000000
TYPES = {0x4001: "Def.FILE", 0x4002: "Env.Vars", 0x4003: "JSON.Labels", 0x4004: "FS", 0x4005: "Signature",
         0x4006: "JSON.Generic", 0x4007: "Generic/Raw", 0x4008: "Cryptographic Message", 0x4009: "SBOM"}


class Object:
    def __init__(self, raw):
        (self.type, self.used, self.id, self.group, self.link, self.offset, self.size, self.stored, self.created,
         self.modified, self.uid, self.gid, self.name, self.extra) = DESCRIPTOR.unpack(raw)

    def raw(self):
        return DESCRIPTOR.pack(self.type, self.used, self.id, self.group, self.link, self.offset, self.size,
                               self.stored, self.created, self.modified, self.uid, self.gid, self.name, self.extra)

    def signed_fields(self, first):
        """What a signature is about; `first`: the lowest id of the group."""
        return struct.pack("<i?IIqqqq", self.type, self.used, self.id - first, self.link, self.size, self.created,
                           self.uid, self.gid) + self.name + self.extra


class Sif:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        (self.launch, self.magic, self.version, self.architecture, self.uuid, self.created, self.modified, self.free,
         self.total, self.descriptors_at, self.descriptors_size, self.data_at,
         self.data_size) = HEADER.unpack(self.bytes[:HEADER.size])
        place = self.bytes[self.descriptors_at:self.descriptors_at + self.descriptors_size]
        self.all = [Object(raw) for raw in (place[i:i + DESCRIPTOR.size]
                                            for i in range(0, len(place), DESCRIPTOR.size))]
        self.objects = [one for one in self.all if one.used]

    def data(self, one):
        return self.bytes[one.offset:one.offset + one.size]

    def of_group(self, group):
        return [one for one in self.objects if one.group == GROUP | group and one.type != 0x4005]


def check(sif):
    assert HEADER.size == 128 and DESCRIPTOR.size == 585
    assert sif.launch == b"#!/usr/bin/env run-singularity\n\0", sif.launch
    assert sif.magic == b"SIF_MAGIC\0" and sif.version == b"01\0", (sif.magic, sif.version)
    machine = {"x86_64": b"02\0", "aarch64": b"04\0"}[os.uname().machine]
    assert sif.architecture == machine, sif.architecture
    assert sif.uuid != bytes(16) and sif.uuid[6] >> 4 == 8 and sif.uuid[8] >> 6 == 2, sif.uuid.hex()
    assert sif.created == sif.modified >= 0
    assert sif.total == 48 and sif.free == sif.total - len(sif.objects), (sif.total, sif.free)
    assert sif.descriptors_at == 4096 and sif.descriptors_size == 48 * DESCRIPTOR.size
    assert sif.data_at == sif.descriptors_at + sif.descriptors_size
    at = sif.data_at
    for i, one in enumerate(sif.objects):
        assert one.id == i + 1 and one.group == GROUP | 1 and one.link == 0, vars(one)
        assert one.offset + one.size - at == one.stored and one.offset >= at, vars(one)
        assert one.uid == one.gid == 0 and one.created == one.modified == sif.created
        at = one.offset + one.size
    assert at == sif.data_at + sif.data_size == len(sif.bytes), (at, sif.data_size, len(sif.bytes))
    assert all(not any(one.raw()) for one in sif.all if not one.used)
    partitions = [one for one in sif.objects if one.type == 0x4004]
    assert len(partitions) == 1 and partitions[0].offset % 4096 == 0
    kind, role, code = struct.unpack("<ii3s", partitions[0].extra[:11])
    assert (kind, role, code) == (1, 2, machine) and not any(partitions[0].extra[11:])
    assert sif.data(partitions[0])[:4] == b"hsqs"
    for one in sif.objects:
        if TYPES[one.type] == "JSON.Generic":
            assert isinstance(json.loads(sif.data(one)), dict), one.name
        assert one is partitions[0] or not any(one.extra)
    assert TYPES[sif.objects[0].type] == "Def.FILE" and sif.data(sif.objects[0]).startswith(b"bootstrap: ")
    print("good")


def message(sif, group, legacy, only):
    """The text that is signed."""
    members = [one for one in sif.of_group(group) if only in (None, one.id)]
    if legacy:
        return "SIFHASH:\n" + hashlib.sha384(b"".join(sif.data(one) for one in members)).hexdigest()

    def digest(data):
        return "sha256:" + hashlib.sha256(data).hexdigest()

    first = min(one.id for one in members)
    head = sif.launch + sif.magic + sif.version + sif.uuid
    return json.dumps({"version": 1, "header": {"digest": digest(head)}, "objects": [
        {"relativeId": one.id - first, "descriptorDigest": digest(one.signed_fields(first)),
         "objectDigest": digest(sif.data(one))} for one in members]}, separators=(",", ":"))


def sign(path, home, user, legacy=None, only=None):
    sif = Sif(path)
    gpg = ["gpg", "--homedir", home, "--batch", "--quiet"]
    text = subprocess.run([*gpg, "--local-user", user, "--digest-algo", "SHA256", "--clearsign"], check=True,
                          input=message(sif, 1, legacy, only).encode(), stdout=subprocess.PIPE).stdout
    keys = subprocess.run([*gpg, "--with-colons", "--fingerprint", user], check=True, stdout=subprocess.PIPE).stdout
    fingerprint = next(line.split(":")[9] for line in keys.decode().splitlines() if line.startswith("fpr:"))
    # SHA-384 for the older form, SHA-256 for the other; the key's fingerprint behind it.
    add(path, sif, text, type=0x4005, link=only or GROUP | 1, group=GROUP,
        extra=struct.pack("<i20s", 2 if legacy else 1, bytes.fromhex(fingerprint)).ljust(384, b"\0"))


def envelope(path, key):
    sif = Sif(path)
    payload = message(sif, 1, None, None).encode()
    kind = b"application/vnd.sylabs.sif-metadata+json"
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
        file.flush()
        signature = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", file.name],
                                   check=True, stdout=subprocess.PIPE).stdout
    text = json.dumps({"payloadType": kind.decode(), "payload": base64.b64encode(payload).decode(),
                       "signatures": [{"keyid": "", "sig": base64.b64encode(signature).decode()}]})
    add(path, sif, text.encode(), type=0x4005, link=GROUP | 1, group=GROUP,
        extra=struct.pack("<i", 1).ljust(384, b"\0"))


def overlay(path, squashfs, group):
    sif = Sif(path)
    primary = next(one for one in sif.objects if one.type == 0x4004)
    with open(squashfs, "rb") as file:
        add(path, sif, file.read(), type=0x4004, link=0, group=GROUP | group,
            extra=struct.pack("<ii", 1, 4) + primary.extra[8:])


def add(path, sif, text, **fields):
    """Puts an object at the end of the file."""
    new = next(one for one in sif.all if not one.used)
    for name, value in fields.items():
        setattr(new, name, value)
    new.used, new.id = True, len(sif.objects) + 1
    new.offset, new.size, new.stored = len(sif.bytes), len(text), len(text)
    new.created = new.modified = sif.created
    head = bytearray(sif.bytes[:sif.data_at])
    head[64:64 + 64] = struct.pack("<8q", sif.created, sif.modified, sif.free - 1, sif.total, sif.descriptors_at,
                                   sif.descriptors_size, sif.data_at, sif.data_size + len(text))
    head[sif.descriptors_at:sif.data_at] = b"".join(one.raw() for one in sif.all)
    with open(path, "r+b") as file:
        file.write(head)
        file.seek(0, os.SEEK_END)
        file.write(text)


def main():
    command, path, *rest = sys.argv[1:]
    sif = Sif(path)
    if command == "check":
        check(sif)
    elif command == "dump":
        sys.stdout.buffer.write(sif.data(next(one for one in sif.objects if one.id == int(rest[0]))))
    elif command == "sign":
        sign(path, *rest[:3], *map(int, rest[3:]))
    elif command == "envelope":
        envelope(path, rest[0])
    elif command == "overlay":
        overlay(path, rest[0], int(rest[1]))
    else:
        for one in sif.objects:
            print(one.id, TYPES[one.type], one.group & ~GROUP, one.link & ~GROUP, one.offset, one.size,
                  one.name.rstrip(b"\0").decode())


if __name__ == "__main__":
    main()
