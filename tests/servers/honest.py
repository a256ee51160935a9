"""Honest calls: each is made to the bare server and to the one behind a gateway as it comes, and the answers are compared.

A file of calls has one of them a line, in the order in which they are made:

    tool, arguments   what a model would send; {workspace} and {page} stand for what differs between two runs
    fails             true where the server itself answers with an error
    answer            the beginning of what the bare server answered, without what differs; written by --record
    needs             what the operator must say of the tool, without which the call is refused: the key of calls.toml
    raises            the rule on risk that the arguments deserve to meet; any other that they meet is a false raise
"""

import json
import re
import tomllib
from pathlib import Path

from client import Failed
from runs import bare, behind
from web import serving

HERE = Path(__file__).resolve().parent
# Of an answer so many characters are recorded.
TOLD = 160
# What differs between two runs of a server, wherever it runs. What else does is named with the server, in calls.toml.
DIFFERS = [
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|UTC|[+-]\d\d:?\d\d))?", "{time}"),
    (r"\w{3} \w{3} \d\d \d{4} \d\d:\d\d:\d\d GMT[+-]\d{4} \([^)]*\)", "{time}"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "{uuid}"),
]


def corpus():
    """The servers that are called, with their calls."""
    known = {server["id"]: server for server in tomllib.loads((HERE / "servers.toml").read_text())["server"]}
    for own in tomllib.loads((HERE / "calls.toml").read_text())["server"]:
        lines = path_of(own["id"]).read_text().splitlines()
        yield {**known.get(own["id"], {}), **own, "calls": [json.loads(line) for line in lines]}


def path_of(server_id):
    return HERE / "calls" / f"{server_id}.jsonl"


def replayed(server, work, binary, record=False):
    """Both runs of one server's calls: what was found of each."""
    with serving(server) as page:
        server = filled(server, {"{page}": page.removeprefix("http://")}, ["sandbox", "env"])
        with bare(server, work) as (client, workspace):
            alone = Run(server, client, workspace, page).answers()
        if record:
            write(server, alone)
        guarded, receipts = behind_gateway(server, work, binary, page, {})
        results = [found(*each) for each in zip(server["calls"], alone, guarded, receipts)]
        if "tools" in server:
            as_it_comes, (guarded, receipts) = results, behind_gateway(server, work, binary, page, server["tools"])
            results = [found(*each) for each in zip(server["calls"], alone, guarded, receipts)]
            results = [with_needs(*each) for each in zip(server["calls"], as_it_comes, results)]
    return results


def behind_gateway(server, work, binary, page, tools):
    """The answers through a gateway whose operator says this of the tools, and the receipts."""
    # Every raise shows where nothing is dangerous by itself; no policy here asks.
    words = {call["tool"]: {"risk": "low", **tools.get(call["tool"], {})} for call in server["calls"]}
    with behind({**server, "tools": words}, work, binary) as (client, gateway):
        guarded = Run(server, client, gateway.workspace, page).answers()
        receipts = gateway.calls()
    if len(receipts) != len(guarded):
        raise Failed(f"{len(guarded)} calls left {len(receipts)} receipts")
    return guarded, receipts


def with_needs(call, before, after):
    """What was found with the operator's words, where the gateway as it comes refused what needs them and nothing else."""
    if before["verdict"] == "refused" and "needs" not in call:
        return before
    if before["verdict"] != "refused" and "needs" in call:
        return {**after, "verdict": "stale", "words": "it is not refused without the operator's word: take `needs` out"}
    return after


def filled(value, words, keys=None):
    """The value with some words in the place of others; of an object under these keys alone."""
    if keys is not None:
        return {key: filled(member, words) if key in keys else member for key, member in value.items()}
    text = json.dumps(value)
    for word, meant in words.items():
        text = text.replace(word, json.dumps(meant)[1:-1])
    return json.loads(text)


class Run:
    """The calls of one server, made by one client."""

    def __init__(self, server, client, workspace, page):
        self.calls, self.client = server["calls"], client
        self.words = {"{workspace}": str(workspace), "{page}": page}
        self.differs = [(re.compile(pattern), word) for pattern, word in [*server.get("differs", []), *DIFFERS]]

    def answers(self):
        self.client.open()
        return [self.answer(call) for call in self.calls]

    def answer(self, call):
        arguments = filled(call["arguments"], self.words)
        try:
            message = self.client.answer("tools/call", {"name": call["tool"], "arguments": arguments})
        except Failed as failed:
            message = {"error": {"message": str(failed), "data": {"reason_codes": ["no answer"]}}}
        return without_era(json.loads(self.alike(json.dumps(message, ensure_ascii=False))))

    def alike(self, text):
        for word, meant in self.words.items():
            text = text.replace(meant, word) if meant else text
        for pattern, word in self.differs:
            text = pattern.sub(word, text)
        return text


def without_era(message):
    """A server of both eras may be spoken to in the newer one behind the gateway, which adds these to a result."""
    if result := message.get("result"):
        result.pop("resultType", None)
        meta = result.pop("_meta", {})
        meta.pop("io.modelcontextprotocol/serverInfo", None)
        result |= {"_meta": meta} if meta else {}
    return message


def fails(message):
    return "error" in message or message["result"].get("isError", False)


def told(message):
    """The beginning of what an answer says."""
    if "error" in message:
        return message["error"]["message"][:TOLD]
    blocks = message["result"].get("content", [])
    return "\n".join(block.get("text", f"<{block['type']}>") for block in blocks)[:TOLD]


def refusal(message):
    """Why the gateway refused, where it did."""
    said = message.get("error", {}).get("data"), message.get("result", {}).get("_meta", {}).get("portreeve/decision")
    for one in said:
        if isinstance(one, dict) and "reason_codes" in one:
            return f"{', '.join(one['reason_codes'])}: {told(message)}"
    return None


def found(call, alone, guarded, receipt):
    """What is to be said of one call."""
    rule = receipt["mcp"].get("risk_rule")
    result = {"call": call, "fails": fails(alone), "rule": rule, "false_raise": rule is not None and rule != call.get("raises")}
    whole = [{key: one.get(key) for key in ("result", "error")} for one in (alone, guarded)]
    if why := refusal(guarded):
        return {**result, "verdict": "refused", "words": why}
    if fails(alone) != call.get("fails", False) or told(alone) != call.get("answer"):
        return {**result, "verdict": "stale", "words": f"bare it answers otherwise than recorded: {told(alone)!r}"}
    if whole[0] != whole[1]:
        return {**result, "verdict": "differs", "words": difference(*(json.dumps(one, ensure_ascii=False) for one in whole))}
    return {**result, "verdict": "same", "words": ""}


def difference(one, other):
    """Both texts around where they part."""
    at = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    around = slice(max(0, at - 40), at + 80)
    return f"bare …{one[around]}…, behind the gateway …{other[around]}…"


def write(server, answers):
    """Records what the bare server answered."""
    lines = []
    for call, message in zip(server["calls"], answers):
        call.pop("fails", None)
        call |= {"fails": True} if fails(message) else {}
        call["answer"] = told(message)
        lines.append(json.dumps(call, ensure_ascii=False) + "\n")
    path_of(server["id"]).write_text("".join(lines))
