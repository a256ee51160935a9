#!/usr/bin/env python3
"""Verifies the log of a Portreeve state directory. Written from docs/receipt-format.md alone; Python's standard library only.
Packed segments (.jsonl.zst) are unpacked by Python itself from 3.14 on, and by the program `zstd` before.

usage: verify_receipts.py STATE_DIR [--key VKEY]
       verify_receipts.py --batch [--key VKEY] STATE_DIR...    (one object a line; exits with the worst)

Prints one JSON object. Exits 0 if the log is sound, 4 if it is broken, 1 if it could not be checked, 2 if wrongly called.
"""

import base64
import binascii
import hashlib
import json
import os
import re
import struct
import subprocess
import sys

# Ed25519 (RFC 8032), verification only.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def decompress(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


class Multiples:
    """A point times 16^i * j for all i and j: multiplying by a number is then 64 additions."""

    def __init__(self, point):
        self.rows = []
        for _ in range(64):
            row = [(0, 1, 1, 0)]
            for _ in range(15):
                row.append(add(row[-1], point))
            self.rows.append(row)
            point = add(row[-1], point)

    def times(self, number):
        total = (0, 1, 1, 0)
        for row in self.rows:
            total = add(total, row[number & 15])
            number >>= 4
        return total


_BASE_Y = 4 * pow(5, P - 2, P) % P
BASE = Multiples(decompress(_BASE_Y.to_bytes(32, "little")))


class Key:
    """A vkey: NAME+HASH+KEY."""

    known = {}

    def __init__(self, text):
        name, digest, coded = text.split("+", 2)
        raw = base64.b64decode(coded, validate=True)
        if not name or len(raw) != 33 or raw[0] != 1 or base64.b64encode(raw).decode() != coded:
            raise ValueError("not an Ed25519 vkey")
        self.text, self.name, self.public = text, name, raw[1:]
        self.id = hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4]
        if self.id.hex() != digest:
            raise ValueError("the hash of the vkey is wrong")

    @classmethod
    def of(cls, text):
        if text not in cls.known:
            cls.known[text] = cls(text)
        return cls.known[text]

    def has_signed(self, message, signature):
        if len(signature) != 64:
            return False
        if not hasattr(self, "multiples"):
            point = decompress(self.public)
            self.multiples = point and Multiples((P - point[0], point[1], 1, P - point[3]))
        r, s = decompress(signature[:32]), int.from_bytes(signature[32:], "little")
        if self.multiples is None or r is None or s >= L:
            return False
        k = int.from_bytes(hashlib.sha512(signature[:32] + self.public + message).digest(), "little") % L
        x, y, z, _ = add(BASE.times(s), self.multiples.times(k))
        return (x - r[0] * z) % P == 0 and (y - r[1] * z) % P == 0


# The tree (RFC 6962).
def leaf_hash(line):
    return hashlib.sha256(b"\0" + line).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def whole(hashes):
    while len(hashes) > 1:
        hashes = [node_hash(hashes[i], hashes[i + 1]) for i in range(0, len(hashes), 2)]
    return hashes[0]


class Tree:
    """Grows leaf by leaf; `edges` are the last tiles of each level."""

    def __init__(self):
        self.size, self.subtrees, self.edges, self.full = 0, [], [], []

    def push(self, leaf):
        digest, size = leaf, self.size
        while size & 1:
            digest, size = node_hash(self.subtrees.pop(), digest), size >> 1
        self.subtrees.append(digest)
        self.size += 1
        digest, level = leaf, 0
        while True:
            if len(self.edges) == level:
                self.edges.append([])
            edge = self.edges[level]
            edge.append(digest)
            if len(edge) < 256:
                return
            self.full.append((level, (self.size >> (8 * level + 8)) - 1, edge))
            self.edges[level] = []
            digest, level = whole(edge), level + 1

    def root(self):
        if not self.subtrees:
            return hashlib.sha256(b"").digest()
        digest = self.subtrees[-1]
        for left in reversed(self.subtrees[:-1]):
            digest = node_hash(left, digest)
        return digest

    def parts(self):
        for level, edge in enumerate(self.edges):
            if edge:
                yield level, (self.size >> (8 * level)) // 256, edge


def tile_path(level, index, width):
    name = "%03d" % (index % 1000)
    index //= 1000
    while index:
        name = "x%03d/%s" % (index % 1000, name)
        index //= 1000
    return os.path.join("tile", str(level), name + (".p/%d" % width if width < 256 else ""))


class Break(Exception):
    def __init__(self, kind, seq, file, offset):
        super().__init__(kind)
        self.kind, self.seq, self.file, self.offset = kind, seq, file, offset


class CannotCheck(Exception):
    pass


# Checkpoints (C2SP signed notes).
class Note:
    def __init__(self, text, offset):
        self.raw, self.offset = text, offset
        end = text.index(b"\n\n") + 1
        self.text, lines = text[:end], text[end + 1 :]
        origin, size, root = self.text.decode().split("\n")[:3]
        if self.text.count(b"\n") != 3 or not origin or not re.fullmatch("0|[1-9][0-9]*", size) or int(size) >= 2**64:
            raise ValueError("no checkpoint")
        if re.search(rb"[\x00-\x09\x0b-\x1f]", self.text):
            raise ValueError("control characters")
        self.origin, self.size, self.root = origin, int(size), decode(root)
        if len(self.root) != 32 or not lines.endswith(b"\n"):
            raise ValueError("no checkpoint")
        self.signatures = []
        for line in lines.decode()[:-1].split("\n"):
            mark, name, coded = line.split(" ")
            signature = decode(coded)
            if mark != "\u2014" or not name or re.search(r"[\s+\x00-\x1f\x7f-\x9f]", name) or len(signature) < 5:
                raise ValueError("no signature")
            self.signatures.append((name, signature[:4], signature[4:]))

    def is_signed_by(self, key):
        own = [s for name, id, s in self.signatures if name == key.name and id == key.id]
        return bool(own) and all(key.has_signed(self.text, signature) for signature in own)


def decode(text):
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("not the one spelling of base64")
    return raw


def read_notes(data):
    """All notes of a file, and where the first thing stands that is none."""
    notes, at = [], 0
    while at < len(data):
        try:
            text = data.index(b"\n\n", at)
            end = data.find(b"\n\n", text + 2)
            end = len(data) if end < 0 else end + 1
            notes.append(Note(data[at:end], at))
        except (ValueError, binascii.Error, UnicodeDecodeError):
            return notes, at
        at = end
        if at < len(data):
            if data[at : at + 1] != b"\n" or at + 1 == len(data):
                return notes, at
            at += 1
    return notes, None


# Records.
def utf16(name):
    return name.encode("utf-16-be", "surrogatepass")


def ordered(value):
    if isinstance(value, dict):
        return {name: ordered(value[name]) for name in sorted(value, key=utf16)}
    if isinstance(value, list):
        return [ordered(item) for item in value]
    return value


def canonical(value):
    return json.dumps(ordered(value), separators=(",", ":"), ensure_ascii=False).encode()


def read_record(line):
    """The record of a line, or None where it is not in its canonical spelling."""
    try:
        record = json.loads(line.decode())
        if isinstance(record, dict) and canonical(record) == line:
            return record
    except (ValueError, RecursionError):
        pass
    return None


ANNOUNCED = [("principal", "sub"), ("mcp", "method"), ("mcp", "server_id"), ("mcp", "tool_name"), ("request", "args_hash")]
SEGMENT = re.compile(r"([0-9]{8})\.jsonl(\.zst)?")


def unpacked_length(data):
    """What the table at the end of a packed segment says it unpacks to, or None where it does not fit the file."""
    if len(data) < 17:
        return None
    count, flags, end = struct.unpack("<IBI", data[-9:])
    start = len(data) - 17 - 8 * count
    if start < 0 or flags or end != 0x8F92EAB1 or struct.unpack_from("<II", data, start) != (0x184D2A5E, 8 * count + 9):
        return None
    lengths = list(struct.iter_unpack("<II", data[start + 8 : -9]))
    if sum(packed for packed, _ in lengths) != start or any(p > 2 << 20 or not 0 < n <= 1 << 20 for p, n in lengths):
        return None
    return sum(length for _, length in lengths)


def unpacked(data):
    """What a packed segment holds, or None where it does not unpack."""
    length, data = unpacked_length(data), unpack(data)
    return data if data is not None and len(data) == length else None


def unpack(data):
    try:
        from compression import zstd
    except ImportError:
        zstd = None
    if zstd:
        try:
            return zstd.decompress(data)
        except zstd.ZstdError:
            return None
    try:
        done = subprocess.run(["zstd", "--decompress", "--stdout", "--quiet"], input=data, capture_output=True, check=False)
    except OSError as error:
        raise CannotCheck("packed segments need Python 3.14 or the program `zstd`") from error
    return done.stdout if done.returncode == 0 else None


def is_digest(text):
    return isinstance(text, str) and re.fullmatch("sha256:[0-9a-f]{64}", text) is not None


class Verifier:
    def __init__(self, state, key):
        self.folder = os.path.join(state, "ledger")
        self.report = {"ok": False, "records": 0, "checkpoints": 0, "size": 0, "root": None, "break": None}
        self.state, self.key = state, key
        self.tree, self.roots, self.doubt, self.places = Tree(), {}, None, []
        self.intents, self.rotations, self.first, self.pruned = {}, [], None, {}
        self.last, self.end = 0, (os.path.join(self.folder, "00000001.jsonl"), 0)

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def run(self):
        latest, listed = self.read("checkpoint"), self.read("checkpoints") or b""
        try:
            names = sorted(name for name in os.listdir(self.folder) if SEGMENT.fullmatch(name))
        except FileNotFoundError:
            names = []
        # Where a segment lies there plain and packed, the plain one counts.
        names = [name for name in names if not (name.endswith(".zst") and name[:-4] in names)]
        if not names and latest is None and not listed:
            raise CannotCheck("there is no log in this directory")
        self.key = self.key or stored_key(self.state)
        notes, unreadable = read_notes(listed)
        if notes:
            self.report["size"], self.report["root"] = notes[-1].size, base64.b64encode(notes[-1].root).decode()
        self.read_records(names, {note.size for note in notes}, self.report["size"])
        if self.first:
            seq, prev, path, offset = self.first
            if "%d %s" % (seq - 1, prev) not in self.pruned:
                raise Break("pruned", seq, path, offset)
            self.rotations[:0] = self.pruned["%d %s" % (seq - 1, prev)]
        self.judge_checkpoints(notes)
        all_path = os.path.join(self.folder, "checkpoints")
        if unreadable is not None:
            raise Break("signature", None, all_path, unreadable)
        if not (any(note.raw == latest for note in notes[-2:]) or (latest is None and len(notes) == 1)):
            whole_note = latest is not None and read_notes(latest)[1] is None and len(read_notes(latest)[0]) == 1
            kind = "consistency" if whole_note else "signature"
            raise Break(kind, None, os.path.join(self.folder, "checkpoint"), 0)
        if self.doubt:
            raise Break("root", self.doubt[0], self.doubt[1], self.doubt[2])

    def read_records(self, names, wanted, signed):
        before = None
        for name in names:
            path, offset = os.path.join(self.folder, name), 0
            data = self.read(name)
            if name.endswith(".zst"):
                data = unpacked(data)
                if data is None:
                    raise Break("unreadable", None, path, 0)
            for line in data.split(b"\n"):
                if offset + len(line) == len(data):
                    if line:
                        raise Break("cut", self.last + 1, path, offset)
                    break
                if before is None and not name.startswith("00000001"):
                    self.begin_later(line, path, wanted, signed)
                before = self.read_line(line, before, path, offset)
                offset += len(line) + 1
                self.end = (path, offset)
                self.grow(leaf_hash(line), (path, offset - len(line) - 1), wanted, signed)

    def begin_later(self, line, path, wanted, signed):
        """Takes the hashes of records that were removed from the tiles."""
        number = re.search(rb',"seq":([0-9]+)', line)
        seq = int(number.group(1)) if number else 1
        for index in range((seq - 1 + 255) // 256):
            width = min(256, signed - index * 256)
            tile = (width > 0 and self.read_tile(index, width)) or b""
            for at in range(index * 256, min(index * 256 + 256, seq - 1)):
                leaf = tile[(at % 256) * 32 : (at % 256) * 32 + 32]
                if len(leaf) < 32:
                    raise Break("pruned", seq, path, 0)
                self.grow(leaf, None, wanted, signed)

    def read_tile(self, index, width):
        """The lowest tile at `index`, or a longer one that lies in its place."""
        for width in [width, 256] + list(range(width + 1, 256)):
            data = self.read(tile_path(0, index, width))
            if data is not None:
                return data
        return None

    def read_line(self, line, before, path, offset):
        record = read_record(line)
        number = re.search(rb',"seq":([0-9]+)', line)
        broken = lambda kind: Break(kind, int(number.group(1)) if number else None, path, offset)
        if record is None or not isinstance(record.get("log"), str):
            raise broken("spelling")
        seq, log, ts = record.get("seq"), record["log"], record.get("ts")
        if before and before["log"] != log:
            raise broken("chain")
        stated, prev = record.pop("record_hash", None), record.get("prev_hash")
        if not is_digest(stated):
            raise broken("spelling")
        if stated != "sha256:" + hashlib.sha256(canonical(record)).hexdigest():
            raise broken("hash")
        if not is_digest(prev) or not isinstance(seq, int) or not isinstance(ts, str):
            raise broken("spelling")
        if before is None:
            before = {"seq": 0, "hash": "sha256:" + hashlib.sha256(log.encode()).hexdigest(), "ts": "", "log": log}
            if seq != 1 and not os.path.basename(path).startswith("00000001."):
                # The beginning was removed.
                self.first = (seq, prev, path, offset)
                before.update(seq=seq - 1, hash=prev)
        if seq != before["seq"] + 1:
            raise broken("sequence")
        if prev != before["hash"]:
            raise broken("chain")
        if ts < before["ts"]:
            raise broken("time")
        self.meet(record, seq, broken)
        self.last = seq
        self.report["records"] += 1
        return {"seq": seq, "hash": stated, "ts": ts, "log": log}

    def meet(self, record, seq, broken):
        kind = record.get("type")
        if not isinstance(kind, str):
            raise broken("spelling")
        if kind == "request":
            id, phase = record.get("receipt_id"), record.get("phase")
            if not isinstance(id, str) or not isinstance(phase, str):
                raise broken("spelling")
            announced = [(record.get(a) or {}).get(b) for a, b in ANNOUNCED]
            if phase == "intent":
                if id in self.intents:
                    raise broken("intent")
                self.intents[id] = announced
            elif self.intents.pop(id, announced) != announced:
                raise broken("intent")
        elif kind == "admin" and record.get("action") == "ledger.prune":
            self.prune(record)
        elif kind == "admin" and record.get("action") == "ledger.key.rotate" and record.get("result") == "allow":
            self.rotations.append((seq, str(record.get("message")).rsplit(" ", 1)[-1], record.get("subject")))

    def prune(self, record):
        """A removal, and the keys that handed over in what was removed: place, old key and new one of each."""
        subject, (_, mark, listed) = record.get("subject"), str(record.get("message")).partition("; keys:")
        words = listed[1:].split(" ") if mark else []
        told = [(words[i], *words[i + 1 : i + 3]) for i in range(0, len(words), 3)]
        is_well_told = (not mark or listed[:1] == " ") and all(len(each) == 3 and each[0].isdecimal() for each in told)
        if isinstance(subject, str) and is_well_told:
            self.pruned.setdefault(subject, [(int(seq), old, new) for seq, old, new in told])

    def grow(self, leaf, place, wanted, signed):
        self.tree.push(leaf)
        self.places.append(place)
        size = self.tree.size
        if size in wanted:
            self.roots[size] = self.tree.root()
        for level, index, hashes in self.tree.full:
            if size <= signed:
                self.compare(level, index, hashes)
        self.tree.full = []
        if size == signed:
            for level, index, hashes in self.tree.parts():
                self.compare(level, index, hashes)
        if size % 256 == 0:
            self.places = []

    def compare(self, level, index, hashes):
        found, expected = self.read(tile_path(level, index, len(hashes))), b"".join(hashes)
        if self.doubt or found is None or found == expected:
            return
        same = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
        place = min(same // 32, len(hashes) - 1)
        record = self.places[place] if level == 0 else None
        path = os.path.join(self.folder, tile_path(level, index, len(hashes)))
        self.doubt = (((index * 256 + place) << (8 * level)) + 1, path, place * 32, record)

    def keys(self):
        """The log's keys in their order, and since which record each signs."""
        keys = []
        for seq, old, new in self.rotations:
            if keys and keys[-1][1].text != old:
                return None
            keys = (keys or [(0, Key.of(old))]) + [(seq, Key.of(new))]
        keys = keys or [(0, self.key)]
        return keys if any(key.text == self.key.text for _, key in keys) else None

    def judge_checkpoints(self, notes):
        path = os.path.join(self.folder, "checkpoints")
        try:
            keys = self.keys()
        except (ValueError, AttributeError):
            keys = None
        if keys is None:
            raise Break("signature", None, path, 0)
        if not notes:
            raise Break("signature", None, os.path.join(self.folder, "checkpoint"), 0)
        before = 0
        holds = lambda size: max(i for i, (since, _) in enumerate(keys) if since <= size)
        for note in notes:
            needed = keys[holds(before) : holds(note.size) + 1]
            if note.origin != self.key.name or not needed or not all(note.is_signed_by(key) for _, key in needed):
                raise Break("signature", note.size, path, note.offset)
            if note.size <= before:
                raise Break("consistency", note.size, path, note.offset)
            if note.size > self.last:
                raise Break("cut", self.last + 1, *self.end)
            if self.roots.get(note.size) != note.root:
                if self.doubt and self.doubt[0] <= note.size and self.doubt[3]:
                    raise Break("root", self.doubt[0], *self.doubt[3])
                raise Break("root", note.size, path, note.offset)
            before = note.size
            self.report["checkpoints"] += 1


def stored_key(state):
    try:
        with open(os.path.join(state, "ledger.key"), encoding="utf-8") as file:
            for line in file.read().split("-----BEGIN", 1)[0].splitlines():
                if line.strip().startswith("vkey:"):
                    return Key.of(line.strip()[5:].strip())
    except (OSError, ValueError) as error:
        raise CannotCheck("the state directory's key cannot be read; name the log's vkey with --key") from error
    raise CannotCheck("the state directory's key names no vkey; name it with --key")


def check(state, key):
    verifier = Verifier(state, key)
    try:
        verifier.run()
        verifier.report["ok"] = True
        code = 0
    except Break as found:
        verifier.report["break"] = {"seq": found.seq, "file": found.file, "offset": found.offset, "kind": found.kind}
        code = 4
    except (CannotCheck, OSError) as error:
        print("error: %s" % error, file=sys.stderr)
        return 1
    print(json.dumps(verifier.report))
    return code


def main(arguments):
    key, states, batch = None, [], False
    while arguments:
        word = arguments.pop(0)
        if word == "--batch":
            batch = True
        elif word == "--key" and arguments:
            try:
                key = Key.of(arguments.pop(0))
            except (ValueError, binascii.Error):
                print("error: the key is not of the form NAME+HASH+KEY", file=sys.stderr)
                return 2
        elif word.startswith("-"):
            states = []
            break
        else:
            states.append(word)
    if not states or (len(states) > 1 and not batch):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return max(check(state, key) for state in states)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
