"""Recomputes the hashes of a log from its lines alone: RFC 8785 for what a record can hold, and SHA-256.

    chain.py ORIGIN FILE
"""
import hashlib
import json
import sys


def canonical(value):
    """RFC 8785: members in the order of their UTF-16 units, no space, the shortest escapes. Records hold no fractions."""
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
        return "{" + ",".join(canonical(name) + ":" + canonical(inner) for name, inner in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(inner) for inner in value) + "]"
    assert not isinstance(value, float), value
    return json.dumps(value, ensure_ascii=False)


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


origin, path = sys.argv[1:]
previous, count = digest(origin.encode()), 0
with open(path, encoding="utf-8", newline="\n") as lines:
    for line in lines:
        record = json.loads(line)
        own = record.pop("record_hash")
        if own != digest(canonical(record).encode()):
            sys.exit(f"record {count} is not what its hash says")
        if record["prev_hash"] != previous:
            sys.exit(f"record {count} does not follow the one before it")
        previous, count = own, count + 1
print(f"{count} records")
