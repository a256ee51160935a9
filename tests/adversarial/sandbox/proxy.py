"""Rows E: the sandbox's own proxy on 127.0.0.1:3128 and its transparent listeners on 443 and 80. They have no bare run.

The scene: `good` (default good.test) and `*.wild.test` are on the list for 443 and 80, their far sides send
`welcome-<hex>`; everything else, `evil` (evil.test) and `denied` included, resolves to canary listeners. Host side: no
canary listener saw a connection, no byte of a refused attempt arrived, and no denied name was looked up.
"""

import os
import socket
import ssl
import struct
import threading

from evidence import CANARY, WELCOME, Given, attempt, attempts, proof
from network import listen_for, question, SECONDS

GOOD, EVIL = "good.test", "evil.test"


def hello(name):
    """A real ClientHello, with this SNI or with none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()


def hello_naming(*names):
    """A bare ClientHello with exactly these entries in its list of server names."""
    entries = b"".join(b"\0" + struct.pack(">H", len(each)) + each for each in names)
    listed = struct.pack(">H", len(entries)) + entries
    extensions = struct.pack(">HH", 0, len(listed)) + listed
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + struct.pack(">H", len(extensions)) + extensions
    shaken = b"\1" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\3\1" + struct.pack(">H", len(shaken)) + shaken


def dial(given):
    proxy = given.get("proxy_host", "127.0.0.1"), given.get("proxy_port", 3128)
    return socket.create_connection(proxy, timeout=SECONDS)


def until_blank_line(connection):
    head = b""
    while b"\r\n\r\n" not in head and len(head) < 65536:
        piece = connection.recv(1)
        if not piece:
            break
        head += piece
    return head


def judged(answer, data, pattern=CANARY):
    through, detail = proof(data, pattern)
    return through, f"answered {answer[:60]!r}; {detail}"


def connect(given, host, port=443, say=None, pattern=WELCOME):
    """CONNECT; where the proxy agrees, the first words, and then the far side's banner."""
    host = host.encode() if isinstance(host, str) else host
    with dial(given) as connection:
        connection.sendall(b"CONNECT %b:%d HTTP/1.1\r\nHost: %b:%d\r\n\r\n" % (host, port, host, port))
        try:
            head = until_blank_line(connection)
        except ConnectionResetError:
            return False, "the connection was reset"
        if b" 200" not in head.split(b"\r\n")[0]:
            return judged(head, b"")
        connection.sendall(first_words(host, port) if say is None else say)
        return judged(head, or_nothing(connection, pattern), pattern)


def first_words(host, port):
    """What a client that means well says first on these ports; elsewhere the far side begins."""
    return {443: hello_naming(host), 80: b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host}.get(port, b"")


def or_nothing(connection, pattern=WELCOME):
    try:
        return listen_for(connection, pattern=pattern)
    except ConnectionResetError:
        return b""


def socks(given, host, port=443, command=1, kind=3, say=None, pattern=WELCOME):
    """SOCKS5; `kind` 3 is a name, 1 and 4 are addresses."""
    host = host.encode() if isinstance(host, str) else host
    with dial(given) as connection:
        connection.sendall(b"\5\1\0")
        chosen = connection.recv(2)
        where = bytes([len(host)]) + host if kind == 3 else host
        connection.sendall(bytes([5, command, 0, kind]) + where + struct.pack(">H", port))
        try:
            reply = connection.recv(32)
        except ConnectionResetError:
            reply = b""
        if reply[1:2] != b"\0":
            return judged(chosen + reply, b"")
        if command == 3:
            return associated(reply)
        connection.sendall(first_words(host, port) if say is None else say)
        return judged(chosen + reply, or_nothing(connection, pattern), pattern)


def associated(reply):
    """Where UDP ASSOCIATE was granted, a datagram through the relay must come back with the canary."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(SECONDS)
        sender.sendto(b"\0\0\0\1" + bytes(4) + b"\0\x35attack", ("127.0.0.1", struct.unpack(">H", reply[8:10])[0]))
        return judged(reply, sender.recv(65536))


def speak(given, request, pattern=WELCOME, target=None):
    """Any bytes to the proxy, or to another address and port."""
    with socket.create_connection(target, timeout=SECONDS) if target else dial(given) as connection:
        connection.sendall(request)
        answer = or_nothing(connection, pattern)
        return judged(answer, answer, pattern)


def get(given, host, port=80, **rest):
    host = host.encode() if isinstance(host, str) else host
    where = host if port == 80 else b"%b:%d" % (host, port)
    return speak(given, b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % (where, where), **rest)


def spelled(row, table):
    """One attempt for every spelling (for URLs, for SOCKS5) and every way to say it."""
    for name, (host, plain) in table.items():
        attempts(row, {
            f"connect_{name}": lambda given, host=host: connect(given, host),
            f"socks_{name}": lambda given, plain=plain: socks(given, plain),
            f"get_{name}": lambda given, host=host: get(given, host),
        })


def denied(given):
    return given.get("denied", "denied.test")


def good(given):
    return given.get("good", GOOD)


# E1: names that are not on the list

attempts("E1", {
    "connect_denied": lambda given: connect(given, denied(given)),
    "connect_denied_80": lambda given: connect(given, denied(given), 80),
    "socks_denied": lambda given: socks(given, denied(given)),
    "get_denied": lambda given: get(given, denied(given)),
    "origin_form": lambda given: speak(given, b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % denied(given).encode()),
    "old_connect": lambda given: speak(given, b"CONNECT %b:443 HTTP/1.0\r\n\r\n" % denied(given).encode()),
    "http2": lambda given: speak(given, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "socks4": lambda given: speak(given, b"\4\1\1\xbb\0\0\0\1x\0" + denied(given).encode() + b"\0"),
    "neither": lambda given: speak(given, bytes(range(128, 192))),
})

# E2: addresses in all their spellings, as (for URLs, for SOCKS5)

spelled("E2", {
    "public": ("93.184.216.34",) * 2, "loopback": ("127.0.0.1",) * 2, "localhost": ("localhost",) * 2,
    "zero": ("0.0.0.0",) * 2, "loopback_six": ("[::1]", "::1"), "mapped": ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
    "decimal": ("2130706433",) * 2, "hexadecimal": ("0x7f.1",) * 2, "short": ("127.1",) * 2, "octal": ("0177.0.0.1",) * 2,
    "private": ("10.0.0.1",) * 2, "zone": ("[fe80::1%25eth0]", "fe80::1%eth0"), "loopback_dot": ("127.0.0.1.",) * 2,
    "metadata": ("169.254.169.254",) * 2, "hexadecimal_whole": ("0x7f000001",) * 2, "one_zero": ("0",) * 2,
})

# E3: allowed names with answers that must not be dialled; `rebind.test` changes its answer after every question

for name in ("loopback", "metadata", "private", "mapped", "nat64", "mixed"):
    attempts("E3", {
        f"connect_{name}": lambda given, name=name: connect(given, f"{name}.test", pattern=CANARY),
        f"socks_{name}": lambda given, name=name: socks(given, f"{name}.test", pattern=CANARY),
        f"get_{name}": lambda given, name=name: get(given, f"{name}.test", pattern=CANARY),
    })


@attempt("E3")
def rebinding(given):
    """Reaching the public far side (`welcome-`) is right, the private one (`canary-`) never is."""
    found = [connect(given, "rebind.test", pattern=CANARY) for _ in range(given.get("times", 10))]
    return any(through for through, _ in found), f"{found[-1][1]}"


# E4: ports that are not on the list

for port in (22, 8080, 444):
    attempts("E4", {f"connect_{port}": lambda given, port=port: connect(given, good(given), port)})
    attempts("E4", {f"socks_{port}": lambda given, port=port: socks(given, good(given), port)})
    attempts("E4", {f"get_{port}": lambda given, port=port: get(given, good(given), port)})

# E5, E6: names that look like an allowed one

spelled("E5", {name: (host, host) for name, host in {
    "suffix": f"{GOOD}.{EVIL}", "prefix": f"evil{GOOD}", "user": f"{GOOD}@{EVIL}", "user_password": f"{GOOD}:443@{EVIL}",
    "apex": "wild.test", "wild_look_alike": "evilwild.test", "percent": "good%2etest", "ideographic_stop": "good。test",
    "full_width": "ｇood.test", "two_dots": f"{GOOD}..", "only_dot": ".", "star": "*.wild.test", "backslash": f"{EVIL}\\{GOOD}",
    "fragment": f"{EVIL}#{GOOD}", "tab": f"{GOOD}\t{EVIL}", "comma": f"{GOOD},{EVIL}", "underscore": f"good_test.{EVIL}",
    "long_label": "a" * 64 + ".wild.test", "long_name": "a." * 123 + "wild.test", "two_ports": f"{GOOD}:443:22",
    "slash": f"{EVIL}/.{GOOD}", "empty": "",
}.items()})
spelled("E6", {name: (host, host) for name, host in {
    "null_after": f"{GOOD}\0", "null_before": f"\0{GOOD}", "null_then_evil": f"{GOOD}\0.{EVIL}",
    "evil_then_null": f"{EVIL}\0.{GOOD}", "line_then_evil": f"{GOOD}\r\nHost: {EVIL}", "line_feed": f"{EVIL}\n.{GOOD}",
}.items()})

# E7: what is said on 443. Host side: the far side of good.test saw no byte.


def address_of(given, port):
    """What the sandbox's resolver gives for the allowed name."""
    return socket.getaddrinfo(good(given), port, socket.AF_INET)[0][4]


SAID = {
    "wrong_name": lambda: hello(EVIL), "no_name": lambda: hello(None), "plain": lambda: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "two_names": lambda: hello_naming(GOOD.encode(), EVIL.encode()), "two_names_turned": lambda: hello_naming(EVIL.encode(), GOOD.encode()),
    "null_in_name": lambda: hello_naming(GOOD.encode() + b"\0." + EVIL.encode()), "no_names_listed": hello_naming,
    "old_hello": lambda: b"\x80\x2e\1\0\2\0\x15\0\0\0\x10" + bytes(37), "truncated": lambda: hello(GOOD)[:40],
    "in_pieces": lambda: in_pieces(hello(EVIL)), "banner_first": lambda: b"\x16\3\1\xff\xff" + bytes(200),
}


def in_pieces(whole):
    """The same ClientHello in records of 30 bytes, so that the name stands in a later one."""
    body = whole[5:]
    pieces = [body[at : at + 30] for at in range(0, len(body), 30)]
    return b"".join(b"\x16\3\1" + struct.pack(">H", len(piece)) + piece for piece in pieces)


for name, say in SAID.items():
    attempts("E7", {
        f"connect_{name}": lambda given, say=say: connect(given, good(given), say=say()),
        f"socks_{name}": lambda given, say=say: socks(given, good(given), say=say()),
        f"transparent_{name}": lambda given, say=say: speak(given, say(), target=address_of(given, 443)),
    })
# An address nobody was given for a name, with the SNI of an allowed one, and with none.
attempts("E7", {
    "address_with_allowed_name public": lambda given: speak(given, hello(good(given)), target=(given.public, 443)),
    "address_without_name public": lambda given: speak(given, hello(None), target=(given.public, 443)),
})

# E8: plain HTTP. The far side of good.test:80 says `welcome-…` and, as `saw=HOST`, the Host header it got.


def host_seen(given, said, target=None):
    _, detail = speak(given, said, CANARY, target)
    return f"saw={EVIL}" in detail or "canary-" in detail, detail


def request(url, host, more=""):
    return f"GET {url} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


FIRST, SECOND = request(f"http://{GOOD}/", GOOD), request(f"http://{EVIL}/", EVIL)
SMUGGLER = FIRST.replace(b"GET", b"POST")[:-2] + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
UPGRADE = request(f"http://{GOOD}/", GOOD, "Connection: upgrade\r\nUpgrade: websocket\r\n")


@attempt("E8")
def second_request(given):
    """After the first answer, on the same connection."""
    with dial(given) as connection:
        connection.sendall(FIRST)
        first = or_nothing(connection)
        try:
            connection.sendall(SECOND)
        except OSError:
            return False, "closed after the first answer"
        return judged(first, or_nothing(connection, CANARY))


attempts("E8", {
    "other_host": lambda given: host_seen(given, request(f"http://{GOOD}/", EVIL, "Connection: close\r\n")),
    "two_hosts": lambda given: host_seen(given, request(f"http://{GOOD}/", EVIL, f"Host: {GOOD}\r\n")),
    "user_in_url": lambda given: host_seen(given, request(f"http://{GOOD}@{EVIL}/", GOOD)),
    "pipelined": lambda given: host_seen(given, FIRST + SECOND),
    "pipelined_origin": lambda given: host_seen(given, FIRST + request("/", EVIL)),
    "smuggled": lambda given: host_seen(given, SMUGGLER + SECOND),
    "upgraded": lambda given: host_seen(given, UPGRADE + SECOND),
    "secure_url": lambda given: speak(given, request(f"https://{GOOD}/", GOOD)),
    "transfer_url": lambda given: speak(given, request(f"ftp://{GOOD}/", GOOD)),
    "file_url": lambda given: speak(given, request("file:///etc/passwd", GOOD)),
    "transparent_other_host": lambda given: host_seen(given, request("/", EVIL), address_of(given, 80)),
    "transparent_address public": lambda given: speak(given, request("/", GOOD), CANARY, (given.public, 80)),
})

# E9: SOCKS5 beyond CONNECT by name

FOUR, SIX = bytes([93, 184, 216, 34]), socket.inet_pton(socket.AF_INET6, "2606:4700::1111")
for name, (host, command, kind) in {
    "udp_associate": (bytes(4), 3, 1), "udp_associate_by_name": (GOOD.encode(), 3, 3), "bind": (GOOD.encode(), 2, 3),
    "bind_four": (FOUR, 2, 1), "four": (FOUR, 1, 1), "six": (SIX, 1, 4), "loopback_four": (b"\x7f\0\0\1", 1, 1),
    "loopback_six": (bytes(15) + b"\1", 1, 4), "mapped_six": (bytes(10) + b"\xff\xff\x7f\0\0\1", 1, 4),
    "unknown_command": (GOOD.encode(), 9, 3), "tor_resolve": (EVIL.encode(), 0xF0, 3),
}.items():
    attempts("E9", {name: lambda given, it=(host, command, kind): socks(given, it[0], 443, it[1], it[2])})


# E10: another process does the talking


@attempt("E10")
def relayed_connect(given):
    relay = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        ours, _ = relay.accept()
        theirs = dial(given)
        threading.Thread(target=pump, args=(theirs, ours), daemon=True).start()
        pump(ours, theirs)
        os._exit(0)
    try:
        through = Given(given, proxy_host="127.0.0.1", proxy_port=relay.getsockname()[1])
        return connect(through, denied(given))
    finally:
        os.kill(child, 9)


def pump(source, sink):
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
    except OSError:
        pass
    sink.close()


# E11: too much. Host side: a record for each big one, few records for the flood.


def connect_flood(given):
    found = [connect(given, denied(given)) for _ in range(given.get("times", 300))]
    return any(through for through, _ in found), f"{len(found)} attempts; {found[-1][1]}"


def question_flood(given):
    """Names that differ, so that they cannot be coalesced by name alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for each in range(given.get("times", 2000)):
            sender.sendto(question(f"n{each}.{denied(given)}"), (given.resolver, 53))
    return False, "sent"


def idle_connections(given):
    """Holds many connections without a word; a CONNECT must still get its answer."""
    held = [dial(given) for _ in range(given.get("times", 200))]
    through, detail = connect(given, denied(given))
    return through, f"{len(held)} held; {detail}"


BIG = "X-Big: " + "a" * 20_000 + "\r\n"
attempts("E11", {
    "big_header": lambda given: speak(given, request(f"http://{GOOD}/", GOOD, BIG)),
    "big_connect": lambda given: speak(given, f"CONNECT {GOOD}:443 HTTP/1.1\r\n{BIG}\r\n".encode()),
    "endless_line": lambda given: speak(given, b"GET http://" + b"a" * 200_000),
    "connect_flood": connect_flood,
    "question_flood resolver": question_flood,
    "idle_connections": idle_connections,
})
