"""A hostile MCP server on stdio: one tool, `attempt`, that tries one way out of the sandbox and says what came of it.

    hostile.py [flags]                                          serve (MCP 2025-11-25, newline-delimited JSON-RPC)
    hostile.py --bare '{"row": "F1", "attempt": "read_secret", "with": {"secret": "/path"}}'     the control run
    hostile.py --list                                           every attempt and what its `with` must hold

The answer is one JSON object: {"row", "attempt", "through", "errno", "signal", "detail"}. `errno` is a name such as
ENOENT or EAI_AGAIN, `signal` the one that ended the attempt, and `through` is judged by evidence (evidence.py). Each
attempt runs in a child of its own. rows.json says what is expected of each; module and function texts say what only the
host can see. Bare runs are refused to root.

Flags for bad servers, which otherwise serve: --garbage (nonsense on stdout before every answer), --long-line (calls are
answered by a line of 100 MB), --silent (never answers), --daemon (leaves a detached process that touches
`daemon-alive` in the workspace every 100 ms), --ignore-signals (and the end of stdin), --crash (exits at once),
--flood-stderr (without end), --small-files N (makes N files in the workspace first).
"""

import sys

sys.dont_write_bytecode = True  # this directory is read-only inside

import errno
import json
import os
import resource
import select
import signal
import socket
import threading
import time

import bombs
import files, kernel, network, processes, proxy  # noqa: E401,F401  they fill the table
from evidence import ATTEMPTS, OWN_DESCRIPTORS, Given

TOOL = {
    "name": "attempt",
    "description": "Tries one thing that must not work.",
    "inputSchema": {
        "type": "object",
        "properties": {"row": {"type": "string"}, "attempt": {"type": "string"}, "with": {"type": "object"}},
        "required": ["row", "attempt"],
    },
}


def name_of(error):
    if isinstance(error, socket.gaierror):
        names = [name for name in dir(socket) if name.startswith("EAI_") and getattr(socket, name) == error.errno]
        return names[0] if names else "EAI"
    if isinstance(error, TimeoutError) and error.errno is None:
        return "ETIMEDOUT"
    return errno.errorcode.get(error.errno, str(error.errno))


def tried(function, given):
    """Through, errno and detail of one attempt."""
    try:
        through, detail = function(given)
        return {"through": bool(through), "errno": None, "detail": detail}
    except OSError as error:
        return {"through": False, "errno": name_of(error), "detail": str(error)}
    except MemoryError:
        return {"through": False, "errno": "ENOMEM", "detail": "MemoryError"}
    except Exception as error:  # a fault of ours must not look like a wall
        return {"through": False, "errno": "FAULT", "detail": f"{type(error).__name__}: {error}"}


def attempt(order, bare=False):
    """Runs one attempt in a child and reports, whatever becomes of the child."""
    row, name, given = order.get("row"), order.get("attempt"), Given(order.get("with") or {})
    report = {"row": row, "attempt": name, "through": False, "errno": None, "signal": None, "detail": ""}
    function, needs = ATTEMPTS.get((row, name), (None, ()))
    missing = [need for need in needs if need not in given]
    if function is None or missing:
        return {**report, "errno": "FAULT", "detail": f"missing {missing}" if function else "no such attempt"}
    reader, writer = os.pipe()
    OWN_DESCRIPTORS.update((reader, writer))
    try:
        child = os.fork()
    except OSError as error:
        return {**report, "errno": "FAULT", "detail": f"no child: {error}"}
    if child == 0:
        os.setsid()
        os.close(reader)
        if bare:
            own_limits(row)
        os.write(writer, json.dumps(tried(function, given)).encode()[:60_000])
        os._exit(0)
    os.close(writer)
    seconds = given.get("timeout", 60)
    if select.select([reader], [], [], seconds)[0]:
        said = os.read(reader, 1 << 16)
    else:
        said = json.dumps({"detail": f"no end within {seconds} s", "errno": "ETIME"}).encode()
        os.killpg(child, signal.SIGKILL)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if said:
        return {**report, **json.loads(said)}
    ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None
    return {**report, "signal": ended, "detail": f"ended with status {status}"}


def own_limits(row):
    """Bombs are let off bare only within walls of our own."""
    if row in ("B1", "B2", "B3", "X3"):
        for limit, most in (
            (resource.RLIMIT_NPROC, 600), (resource.RLIMIT_AS, 1 << 30), (resource.RLIMIT_FSIZE, 64 << 20),
            (resource.RLIMIT_CPU, 30),
        ):  # fmt: skip
            resource.setrlimit(limit, (most, most))


def answer(method, parameters):
    if method == "initialize":
        capabilities, info = {"tools": {}}, {"name": "hostile", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call" and parameters.get("name") == "attempt":
        text = json.dumps(attempt(parameters.get("arguments") or {}))
        return {"content": [{"type": "text", "text": text}], "isError": False}
    return {} if method == "ping" else None


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def serve(flags):
    for line in sys.stdin:
        if not line.strip() or "--silent" in flags:
            continue
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        if "--garbage" in flags:
            sys.stdout.write('\x00\x1b[2Jhello {"jsonrpc": \n[]\nnull\n{"jsonrpc":"2.0","id":{},"result":1}\n')
        result = answer(message["method"], message.get("params") or {})
        if "--long-line" in flags and message["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": "l" * 100_000_000}]}
        if result is None:
            say({"id": message["id"], "error": {"code": -32601, "message": "method not found"}})
        else:
            say({"id": message["id"], "result": result})


def leave_daemon():
    """Double fork and a session of its own; it holds none of our descriptors."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    nothing = os.open("/dev/null", os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)
    while True:
        with open("daemon-alive", "w", encoding="utf-8") as file:
            file.write(str(time.time()))
        time.sleep(0.1)


def flood_stderr():
    while True:
        os.write(2, b"e" * 4095 + b"\n")


def main(arguments):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # kill(-1) must not silence the one who reports
    if "--list" in arguments:
        listed = [{"row": row, "attempt": name, "with": needs} for (row, name), (_, needs) in ATTEMPTS.items()]
        return print(json.dumps(listed))
    if "--bare" in arguments:
        if os.geteuid() == 0:
            sys.exit("bare runs are for an ordinary user")
        return print(json.dumps(attempt(json.loads(arguments[arguments.index("--bare") + 1]), bare=True)), flush=True)
    if "--crash" in arguments:
        sys.exit(3)
    if "--ignore-signals" in arguments:
        for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
            signal.signal(each, signal.SIG_IGN)
    if "--small-files" in arguments:
        bombs.many_files("small-files", int(arguments[arguments.index("--small-files") + 1]), keep=True)
    if "--daemon" in arguments:
        leave_daemon()
    if "--flood-stderr" in arguments:
        threading.Thread(target=flood_stderr, daemon=True).start()
    serve(arguments)
    while "--ignore-signals" in arguments:
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1:])
