"""One server, twice: started as anybody would, and behind a gateway with a configuration and a state of its own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path

from client import PATIENCE, Failed, HttpClient, StdioClient, last_line

# Where the gateway looks for runtimes; the bare run uses the same ones.
RUNTIMES = "/usr/local/bin:/usr/bin:/bin"
CONFIGURATION = """[listen]
mcp = "127.0.0.1:0"
admin = "127.0.0.1:0"

[listen.tls]
mode = "off"

[state]
dir = "state"

[policy]
files = ["all.cedar"]
"""
POLICY = '@id("all")\npermit (principal in Group::"servers", action, resource);\n'


def run(command, **options):
    """The output of a command; what it complained of where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Failed(last_line(done.stderr or done.stdout))
    return done.stdout


def fresh(directory):
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def parts(package):
    """`npm:NAME@VERSION` → source, name, version."""
    source, rest = package.split(":", 1)
    name, version = rest.rsplit("@", 1)
    return source, name, version


# Bare.


def list_bare(server, work):
    """What the server lists where nothing stands around it."""
    with bare(server, work) as (client, workspace):
        return without(workspace, client.list_all())


@contextlib.contextmanager
def bare(server, work):
    """A client of the server where nothing stands around it, and the workspace."""
    command = installed(server, work / "installed" / server["id"])
    workspace = fresh(work / "bare" / server["id"]) / "workspace"
    workspace.mkdir()
    prepare(server, workspace)
    place = lambda text: text.replace("{workspace}", str(workspace))
    env = {name: place(value) for name, value in server.get("env", {}).items()}
    home = {"HOME": str(workspace), "PATH": RUNTIMES}
    env |= server.get("bare_env", {})
    client = StdioClient([*command, *map(place, server.get("args", []))], {**os.environ, **home, **env}, workspace)
    try:
        yield client, workspace
    finally:
        client.close()


def without(workspace, listed):
    """A server may tell where it works: that differs between the two runs, and is no difference."""
    return json.loads(json.dumps(listed).replace(str(workspace), "{workspace}"))


def prepare(server, workspace):
    """What the server expects to find in its workspace."""
    for name, content in server.get("files", {}).items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for command in server.get("prepare", []):
        run(command, cwd=workspace, env={**os.environ, **server.get("env", {})})


def installed(server, directory):
    """Installs the package by npm or pip alone, once, and says how it is started."""
    source, name, version = parts(server["package"])
    stamp = directory / "package.txt"
    if not stamp.exists() or stamp.read_text() != server["package"]:
        fresh(directory)
        if source == "npm":
            (directory / "package.json").write_text("{}")
            # The gateway runs no script of a package; here none is run either, so that the same thing is compared.
            quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            run([tool("npm"), "install", "--prefix", directory, *quiet, f"{name}@{version}"], cwd=directory)
        else:
            run([tool("python3"), "-m", "venv", directory / "venv"])
            run([directory / "venv/bin/pip", "install", "--quiet", f"{name}=={version}"])
        stamp.write_text(server["package"])
    if source == "npm":
        return [tool("node"), npm_program(server, directory / "node_modules" / name)]
    return [directory / "venv/bin/python", directory / "venv/bin" / pypi_program(server, directory / "venv", name)]


def tool(name):
    path = shutil.which(name, path=RUNTIMES)
    if path is None:
        raise Failed(f"{name} is in none of {RUNTIMES}")
    return path


def npm_program(server, package):
    programs = json.loads((package / "package.json").read_text())["bin"]
    if isinstance(programs, str):
        return package / programs
    return package / programs[server.get("bin") or next(iter(programs))]


def pypi_program(server, venv, name):
    query = (
        "from importlib.metadata import distribution as d\n"
        f"print(*(e.name for e in d({name!r}).entry_points if e.group == 'console_scripts'))"
    )
    programs = run([venv / "bin/python", "-c", query]).split()
    return server.get("bin") or (name if name in programs else programs[0])


# Behind the gateway.


def list_behind(server, work, binary):
    """What the server lists in its sandbox behind a gateway, and the attempts it made that were refused."""
    with behind(server, work, binary) as (client, gateway):
        return without(gateway.workspace, client.list_all()), gateway.refused_attempts()


@contextlib.contextmanager
def behind(server, work, binary):
    """A client of the server in its sandbox behind a gateway, and the gateway."""
    gateway = Gateway(fresh(work / "gateway" / server["id"]), server["id"], binary)
    gateway.add(server)
    gateway.start()
    try:
        gateway.await_discovery()
        gateway.approve()
        yield HttpClient(gateway.url(), gateway.token(), gateway.workspace), gateway
    finally:
        gateway.stop()


class Gateway:
    """A gateway with this one server."""

    def __init__(self, directory, server_id, binary):
        self.directory, self.id, self.binary = directory, server_id, binary
        self.workspace = directory / "state/workspaces" / server_id
        self.ready = directory / "ready.json"
        self.process = None
        (directory / "portreeve.toml").write_text(CONFIGURATION)
        (directory / "all.cedar").write_text(POLICY)

    def portreeve(self, *arguments):
        return run([self.binary, *arguments], cwd=self.directory)

    def add(self, server):
        options = [f"--env={name}=text:{value}" for name, value in server.get("env", {}).items()]
        options += ["--bin", server["bin"]] if "bin" in server else []
        arguments = ["--", *server["args"]] if "args" in server else []
        self.portreeve("server", "add", self.id, server["package"], *options, *arguments)
        self.widen(server.get("sandbox", {}))
        self.say_of_tools(server.get("tools", {}))
        if "prepare" in server or "files" in server:
            self.workspace.mkdir(parents=True)
            prepare(server, self.workspace)
            self.hand_over_workspace()

    def hand_over_workspace(self):
        """As root the gateway runs servers under a uid of their own, which must be able to use the workspace."""
        if os.geteuid() == 0:
            uid = json.loads(self.portreeve("doctor", "--json"))["sandbox"]["uid"]
            for path in [self.workspace, *self.workspace.rglob("*")]:
                os.chown(path, uid, -1, follow_symlinks=False)

    def widen(self, sandbox):
        """Writes what the server needs of its sandbox beside what `server add` wrote."""
        path = self.directory / "portreeve.toml"
        text = path.read_text()
        written = tomllib.loads(text)["servers"][self.id].get("sandbox", {})
        head = f"[servers.{self.id}.sandbox]\n"
        lines = ""
        for key, value in sandbox.items():
            if key in written:
                raise Failed(f"`{key}` of the sandbox is written by `server add` already")
            lines += f"{key} = {json.dumps(value)}\n"
        path.write_text(text.replace(head, head + lines))

    def say_of_tools(self, tools):
        """Writes what the operator says of single tools."""
        with open(self.directory / "portreeve.toml", "a") as config:
            for name, keys in tools.items():
                config.write(f"\n[servers.{self.id}.tools.{json.dumps(name)}]\n")
                config.writelines(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())

    def start(self):
        log = open(self.directory / "serve.log", "wb")
        command = [self.binary, "serve", "--ready-file", self.ready]
        self.process = subprocess.Popen(command, cwd=self.directory, stdout=log, stderr=log)
        self.wait(self.ready.exists, "the gateway does not start")

    def wait(self, is_so, otherwise):
        until = time.monotonic() + PATIENCE
        while not is_so():
            if self.process.poll() is not None or time.monotonic() > until:
                log = (self.directory / "serve.log").read_text().strip()
                raise Failed(f"{otherwise}: {log.splitlines()[-1] if log else 'it said nothing'}")
            time.sleep(0.2)

    def await_discovery(self):
        self.wait(lambda: self.seen()["reach"] not in ("unknown", "pending"), "the server is not discovered")
        seen = self.seen()
        if seen["reach"] != "up":
            raise Failed(f"{seen['reach']}: {seen['reason']}; its last words: {self.last_words()}")

    def seen(self):
        return json.loads(self.portreeve("server", "list", "--json").splitlines()[0])

    def last_words(self):
        logs = sorted((self.directory / "state/logs").glob("*"), key=lambda path: path.stat().st_mtime)
        return last_line(logs[-1].read_text(errors="replace")) if logs else "it said nothing"

    def approve(self):
        listed = map(json.loads, self.portreeve("tool", "list", "--json").splitlines())
        if any(tool["standing"] != "approved" for tool in listed):
            self.portreeve("tool", "approve", f"{self.id}/*")

    def url(self):
        return f"{json.loads(self.ready.read_text())['mcp']}/{self.id}"

    def token(self):
        made = self.portreeve("token", "create", "--sub=servers", "--group=servers", "--ttl=15m", "--json")
        return json.loads(made)["token"]

    def refused_attempts(self):
        """The hosts that the server reached for and did not get."""
        found = self.portreeve("activity", "list", "--type=egress", "--status=blocked", "--limit=500", "--json")
        return sorted({json.loads(line)["dst"]["host"] for line in found.splitlines()})

    def calls(self):
        """The final receipts of calls, the first of them first."""
        found = self.portreeve("activity", "list", "--type=request", "--limit=10000", "--json").splitlines()
        final = [record for record in map(json.loads, found) if record["phase"] == "final"]
        return [record for record in reversed(final) if record["mcp"]["method"] == "tools/call"]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
