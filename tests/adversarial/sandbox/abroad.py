"""The far sides in a network of their own, so that the gateway reaches them by a road and not on its own host.

    abroad.py STAGE     serves until it is killed; STAGE/texts holds the canary and the welcome

Two addresses: one where every port is a canary, one of which 443 and 80 are the far side of allowed names: it says
`welcome-…` and, as `saw=HOST`, the Host header it got. Whatever comes is a line in STAGE/abroad.
"""

import os
import socket
import sys
import threading

PUBLIC, PUBLIC_SIX, GOOD = "93.184.216.34", "2606:4700::1111", "93.184.216.40"
UDPLITE = 136
READY = threading.Semaphore(0)
STAGE = sys.argv[1]
with open(os.path.join(STAGE, "texts"), encoding="utf-8") as texts:
    CANARY, WELCOME = texts.read().encode().split()
LOG = os.open(os.path.join(STAGE, "abroad"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def note(text):
    os.write(LOG, text.encode() + b"\n")


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def bound(address, port, kind, protocol=0):
    at = socket.socket(family_of(address), kind, protocol)
    at.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    at.bind((address, port))
    return at


def until_closed(connection):
    connection.settimeout(5)
    try:
        while connection.recv(65536):
            pass
    except OSError:
        pass
    connection.close()


def canary(connection, name, _port):
    note(f"touched {name}")
    connection.sendall(CANARY)
    until_closed(connection)


def far_side(connection, name, port):
    heard = connection.recv(65536)
    if not heard:
        return connection.close()
    hosts = [line[5:].strip().decode(errors="replace") for line in heard.split(b"\r\n") if line.lower().startswith(b"host:")]
    note(f"arrived at {name}: {len(heard)} bytes, hosts {hosts}")
    body = WELCOME + f" saw={','.join(hosts)}\n".encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) if port == 80 else b""
    connection.sendall(head + body)
    connection.shutdown(socket.SHUT_WR)
    until_closed(connection)


def guarded(serve, *arguments):
    try:
        serve(*arguments)
    except OSError:
        pass


def listen(address, port, serve):
    listener = bound(address, port, socket.SOCK_STREAM)
    listener.listen(1024)
    READY.release()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=guarded, args=(serve, connection, f"{address} {port}", port), daemon=True).start()


def datagrams(address, port, protocol):
    at = bound(address, port, socket.SOCK_DGRAM, protocol)
    READY.release()
    while True:
        _, sender = at.recvfrom(65536)
        note(f"touched {address} {port} by a datagram")
        at.sendto(CANARY, sender)


def main():
    tasks = [(listen, PUBLIC, port, canary) for port in (22, 53, 80, 443, 3128, 5000, 7777, 8080)]
    tasks += [(listen, PUBLIC_SIX, port, canary) for port in (443, 8080)]
    tasks += [(listen, GOOD, port, canary) for port in (22, 444, 8080)]
    tasks += [(listen, GOOD, port, far_side) for port in (443, 80)]
    tasks += [(datagrams, address, port, 0) for address in (PUBLIC, PUBLIC_SIX) for port in (53, 443, 7778)]
    tasks += [(datagrams, PUBLIC, 7778, UDPLITE)]
    for task in tasks:
        threading.Thread(target=task[0], args=task[1:], daemon=True).start()
    for _ in tasks:
        READY.acquire()
    note("ready")
    threading.Event().wait()


main()
