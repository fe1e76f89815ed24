"""ELF files of a few sections, for make_corpus.py."""

import struct


def elf(sections):
    """A 64-bit ELF file of sections (name, type, link, bytes), the last of which becomes that of the names."""
    sections = [("", 0, 0, b"")] + sections + [(".names", 3, 0, b"")]
    names = b"".join(name.encode() + b"\0" for name, _, _, _ in sections)
    sections[-1] = (".names", 3, 0, names)
    table = 64 + sum(len(data) for _, _, _, data in sections)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0,
        64, len(sections), len(sections) - 1)
    body, headers, at, name_at = b"", b"", 64, 0
    for name, kind, link, data in sections:
        headers += struct.pack("<IIQQQQIIQQ", name_at, kind, 0, at, at, len(data), link, 0, 1, 0)
        body, at, name_at = body + data, at + len(data), name_at + len(name) + 1
    return head + body + headers


def compat_notes():
    note = elf([(".note.cuda.fwd_compatibility", 7, 0, b'{"Driver": ["470", 535, "570"], "Other": [1]}')])
    return [b"590.44.01\n535.104.05\n" + note, b"590.44\n570.86.15\n" + elf([(".text", 1, 0, b"x")]),
        b"12.5\n11\n\x7fELF"]


def shared_objects():
    texts = b"\0libmpi.so.12\0libc.so.6\0/opt/lib:/x\0GLIBC_2.34\0MPI_1\0MPI_Init\0_ZN3MPI4InitEv\0"
    at = {text: texts.index(text + b"\0") for text in texts.split(b"\0") if text}
    dynamic = b"".join(struct.pack("<QQ", tag, at.get(text, 0)) for tag, text in
        ((14, b"libmpi.so.12"), (1, b"libc.so.6"), (29, b"/opt/lib:/x"), (0, b"")))
    wanted = struct.pack("<HHIII", 1, 1, at[b"libc.so.6"], 16, 0) + struct.pack("<IHHII", 0, 0, 2, at[b"GLIBC_2.34"], 0)
    defined = struct.pack("<HHHHIII", 1, 0, 1, 1, 0, 20, 0) + struct.pack("<II", at[b"MPI_1"], 0)
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", at[name], 0x12, 0, 5, 0, 0)
        for name in (b"MPI_Init", b"_ZN3MPI4InitEv"))
    whole = elf([(".dynstr", 3, 0, texts), (".dynamic", 6, 1, dynamic), (".gnu.version_d", 0x6ffffffd, 1, defined),
        (".gnu.version_r", 0x6ffffffe, 1, wanted), (".dynsym", 11, 1, symbols)])
    return [whole, elf([(".dynstr", 3, 0, texts), (".dynamic", 6, 1, dynamic)]), elf([(".text", 1, 0, b"x")])]


def elf_loads():
    """Libraries with program headers: names and relocations in a segment of their own, or before the program."""
    out = []
    for segments in ([(4, 0, 0x1000), (5, 0x1000, 0x1000)], [(5, 0, 0x2000)]):
        names = b"\0libfirst.so.1\0../x\0"
        dynamic = b"".join(struct.pack("<QQ", tag, value) for tag, value in
            ((1, 1), (1, 15), (5, 0x200), (10, len(names)), (7, 0x300), (8, 0x180), (0, 0)))
        loads = [(1, flags, at, at, size) for flags, at, size in segments]
        loads += [(1, 6, 0x2000, 0x5000, 0x400), (2, 6, 0x2000, 0x5000, len(dynamic))]
        head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(loads), 64, 0, 0)
        head += b"".join(struct.pack("<IIQQQQQQ", kind, flags, at, to, to, size, size, 0x1000)
            for kind, flags, at, to, size in loads)
        out.append((head.ljust(0x200, b"\0") + names).ljust(0x2000, b"\0") + dynamic)
    return out


def plugin_elfs():
    names = b"\0other\0plugin_version\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0, 0, 3, 0, 4)
    symbols += struct.pack("<IBBHQQ", 7, 0, 0, 3, 64 + 72 + len(names), 4)
    return [elf([(".dynsym", 11, 2, symbols), (".dynstr", 3, 0, names), (".data", 1, 0, b"\x08\x05\x16\x00")]),
        elf([(".dynsym", 11, 2, bytes(24)), (".dynstr", 3, 0, names)])]
