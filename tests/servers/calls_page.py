"""Writes docs/honest-calls.md: what the honest calls cost, and nothing else."""

import collections
import datetime

from page import wrapped
from runs import parts


def totals(results):
    """What all of them come to."""
    calls = [one for result in results for one in result["calls"]]
    verdicts = collections.Counter(one["verdict"] for one in calls)
    return {
        "servers": len(results),
        "calls": len(calls),
        "needing": sum("needs" in one["call"] for one in calls),
        "failing": sum(one["fails"] for one in calls),
        "failed": sum("failed" in result for result in results),
        "raises": sum(one["rule"] is not None for one in calls),
        "false_raises": sum(one["false_raise"] for one in calls),
        **{verdict: verdicts[verdict] for verdict in ("same", "refused", "differs", "stale")},
    }


def calls_page(results, machine):
    today = datetime.datetime.now(datetime.timezone.utc).date()
    count = totals(results)
    intro = [
        "# Honest calls",
        "",
        "<!-- Made by `make honest-calls` from tests/servers/calls.toml and tests/servers/calls. Do not edit. -->",
        "",
        *wrapped(
            "What a gateway as it comes costs those who mean no harm: calls as models write them, recorded in "
            "`tests/servers/calls`, each made twice, to the server bare and to the same server behind a gateway, installed by "
            "`portreeve server add`, in the sandbox that it gets by default, with closed objects, default limits, path rules "
            "and host rules, output validation and the rules on risk that come with it. Whole answers are compared, without "
            "times, random numbers and the path of the workspace. A call that fails bare must fail behind with the server's "
            "own error."
        ),
        "",
        *wrapped(
            f"**{count['calls']} honest calls to {count['servers']} servers. As it comes the gateway refuses "
            f"{count['refused'] + count['needing']} of them; with a word of the operator on {needy_tools(results)} tools, "
            f"{count['refused']}.** {count['same']} were answered as the bare server answers, {count['failing']} of them with "
            f"the server's own error. Measured on {today} with "
            f"{machine['version']}, sandbox tier {machine['tier']}, Node {machine['node']}, {machine['python']}."
        ),
        "",
        *wrapped(
            "Every tool was classified as `low`, so that every raise of risk by what stands in arguments shows in the receipt: "
            f"{count['raises']} calls were raised, {count['raises'] - count['false_raises']} of them with reason, "
            f"{count['false_raises']} for harmless content. A raise refuses nothing by itself: policies see it."
        ),
        "",
        *wrapped(
            "`make honest-calls` makes this page anew. It runs other people's programs with your rights: use a machine that "
            "you can throw away. `tests/servers/check --calls ID` replays the calls of one server and writes nothing."
        ),
    ]
    return "\n".join([*intro, "", *table(results), "", *given(results), "", *raised(results)]) + "\n"


def table(results):
    yield "| from | package | version | tools | calls | own errors | need a word | refused | differ | raised | falsely |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for result in results:
        source, name, version = parts(result["server"]["package"])
        calls, count = result["calls"], totals([result])
        tools = len({one["call"]["tool"] for one in calls})
        numbers = [tools, len(calls), count["failing"], count["needing"], count["refused"], count["differs"] + count["stale"]]
        cells = [source, name, version, *numbers, count["raises"], count["false_raises"]]
        yield f"| {' | '.join(map(str, cells))} |"


def given(results):
    """What some servers were given beyond the default."""
    yield "## What they were given beyond the default"
    yield ""
    for result in results:
        server = result["server"]
        words = [f"`{key}` `{value}`" for key, value in server.get("sandbox", {}).items()]
        words += [f"pages at `{{page}}`, a port of this machine"] if server.get("web") else []
        for key in sorted({key for keys in server.get("tools", {}).values() for key in keys}):
            tools = [f"`{name}`" for name, keys in server["tools"].items() if key in keys]
            words.append(f"`{key}` of {', '.join(tools)}, without which {needing(result, key)} calls are refused")
        words += [server["note"]] if "note" in server else []
        if words:
            yield from wrapped(f"- **{server['id']}**: {'; '.join(words)}.", "  ")


def needy_tools(results):
    """How many tools have calls that need a word of the operator."""
    calls = [(result["server"]["id"], one["call"]) for result in results for one in result["calls"]]
    return len({(server, call["tool"]) for server, call in calls if "needs" in call})


def needing(result, key):
    return sum(one["call"].get("needs") == key for one in result["calls"])


def raised(results):
    yield "## Calls whose arguments raised the risk"
    yield ""
    yield "| rule | server | tool | |"
    yield "|---|---|---|---|"
    for result in results:
        for one in result["calls"]:
            if one["rule"]:
                why = "false" if one["false_raise"] else "with reason"
                cells = [one["rule"], result["server"]["id"], one["call"]["tool"], why]
                yield f"| {' | '.join(cells)} |"
