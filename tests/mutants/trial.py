"""Builds a room and runs its tests, each in a process of its own, with one mutant on."""

import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

# A mutant that never ends, or that takes memory without end, is ended. The machine may be busy.
PATIENCE = 30.0
MEMORY = 6 << 30
UNIT_TESTS = "unit_tests"


class Broken(Exception):
    """Nothing can be said about mutants: the room does not build, or its tests fail as it is."""


def build(room, tree, target):
    """The test binaries of a room, or the errors of its compiler.

    The whole workspace is chosen, so that dependencies have the features they have in `make test`; of that, only the targets that
    are named here. The unit tests are such a target in the planted manifest.
    """
    tests = [UNIT_TESTS] + [path.stem for path in (tree / "crates" / room / "tests").glob("*.rs")]
    command = ["cargo", "test", "--no-run", "--locked", "--workspace", "--message-format", "json"]
    command += [option for test in tests for option in ("--test", test)]
    ran = subprocess.run(command, cwd=tree, env=os.environ | {"CARGO_TARGET_DIR": str(target)}, capture_output=True, text=True)
    binaries, errors = [], []
    for line in ran.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            binaries.append(message["executable"])
        if message["reason"] == "compiler-message" and message["message"]["level"].startswith("error"):
            errors.append(message["message"])
    if ran.returncode and not errors:
        raise Broken(ran.stderr)
    return binaries, [error for error in errors if error["spans"]] or errors


class Tests:
    """The tests of a room: how long each takes, which planted functions it enters, and what it says of a mutant."""

    def __init__(self, room, tree, binaries, jobs):
        self.jobs = jobs
        self.directory = tree / "crates" / room
        self.all = []
        for binary in binaries:
            skipped = self._listed(binary, "--ignored")
            self.all += [(binary, name) for name in self._listed(binary) if name not in skipped]
        self.took, self.entered, self.kills = {}, {}, {}

    def _listed(self, binary, *which):
        command = [binary, "--list", "--format", "terse", *which]
        listing = subprocess.run(command, cwd=self.directory, check=True, capture_output=True, text=True).stdout
        return [line.removesuffix(": test") for line in listing.splitlines() if line.endswith(": test")]

    def record(self):
        """Runs every test once as it is."""
        with ThreadPoolExecutor(self.jobs) as pool:
            for test, result in zip(self.all, pool.map(self._recorded, self.all)):
                if result != "passed":
                    raise Broken(f"{test[1]} fails without a mutant ({result})")

    def seconds(self):
        return sum(self.took.values())

    def verdict(self, mutant, function):
        """Tries the tests that enter the function, those first that caught its other mutants."""
        tests = [test for test in self.all if function in self.entered[test]]
        tests.sort(key=lambda test: (-self.kills.get((function, test), 0), self.took[test]))
        for test in tests:
            result = self._run(test, {"PLANTED_MUTANT": str(mutant)}, PATIENCE + 10 * self.took[test])
            if result != "passed":
                self.kills[function, test] = self.kills.get((function, test), 0) + 1
                return ("timeout" if result == "timeout" else "caught"), test[1]
        return "missed", f"{len(tests)} tests"

    def verdict_of_all(self):
        """Tries all tests on a room into which one mutant is compiled."""
        with ThreadPoolExecutor(self.jobs) as pool:
            running = [(test, pool.submit(self._run, test, {}, 4 * PATIENCE)) for test in self.all]
            for test, result in running:
                if (result := result.result()) != "passed":
                    pool.shutdown(wait=True, cancel_futures=True)
                    return ("timeout" if result == "timeout" else "caught"), test[1]
        return "missed", f"{len(self.all)} tests"

    def _recorded(self, test):
        with tempfile.NamedTemporaryFile("r") as notes:
            began = time.monotonic()
            result = self._run(test, {"PLANTED_MUTANT_NOTES": notes.name}, 8 * PATIENCE)
            self.took[test] = time.monotonic() - began
            self.entered[test] = {int(line) for line in notes.read().split()}
        return result

    def _run(self, test, environment, patience):
        binary, name = test
        process = subprocess.Popen(["nice", "-n", "10", binary, "--exact", name, "--test-threads", "1"], cwd=self.directory,
                                   env=os.environ | {"CARGO_MANIFEST_DIR": str(self.directory)} | environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        ended = ends_within(process.pid, patience)
        # What the test left behind goes with it. Its number is not given to another before it is waited for.
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        return "timeout" if not ended else "passed" if code == 0 else "failed"


def ends_within(pid, seconds):
    """Whether the process has ended in time; it is not waited for."""
    deadline = time.monotonic() + seconds
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.003)
    return True
