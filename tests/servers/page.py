"""Writes docs/servers.md: what was measured, and nothing else."""

import datetime
import textwrap

from runs import parts

WIDTH = 132
GIVEN = {"args": "arguments", "env": "env", "prepare": "workspace"}


def page(results, machine):
    today = datetime.datetime.now(datetime.timezone.utc).date()
    same = sum(result["verdict"] == "same" for result in results)
    intro = [
        "# Published servers",
        "",
        "<!-- Made by `make servers` from tests/servers/servers.toml. Do not edit. -->",
        "",
        *wrapped(
            "Servers of npm and PyPI, each started twice: bare, as anybody would start it, and behind a gateway, installed by "
            "`portreeve server add` into a fresh configuration, in the sandbox that it gets by default, its tools approved. The "
            "same client, which says that it can do everything, then listed tools, prompts, resources and templates, and "
            "compared names and whole definitions."
        ),
        "",
        *wrapped(
            f"**{same} of {len(results)} list the same.** Measured on {today} with {machine['version']}, sandbox tier "
            f"{machine['tier']}, Node {machine['node']}, {machine['python']}. Nothing was called: that a server lists its "
            "tools does not say that they work without the hosts and files they need. Packages of npm were installed without "
            "their installation scripts both times."
        ),
        "",
        *wrapped(
            "`make servers` makes this page anew. It runs other people's programs with your rights: use a machine that you "
            "can throw away. `tests/servers/check ID` measures one server and writes nothing."
        ),
    ]
    return "\n".join([*intro, "", *table(results), "", *remarks(results)]) + "\n"


def wrapped(text, indent=""):
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def table(results):
    """Prompts and resources are one number where both runs agree."""
    yield "| from | package | version | tools bare | behind | prompts | resources | sandbox | given | |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for result in results:
        source, name, version = parts(result["server"]["package"])
        bare, behind = (counts(result.get(run)) for run in ("bare", "behind"))
        others = (one if one == other else f"{one} / {other}" for one, other in zip(bare[1:], behind[1:]))
        verdict = "" if result["verdict"] == "same" else result["verdict"].split(":")[0]
        sandbox = ", ".join(result["server"].get("sandbox", {})) or "default"
        given = ", ".join(words for key, words in GIVEN.items() if key in result["server"])
        cells = [source, name, version, bare[0], behind[0], *others, sandbox, given, verdict]
        yield f"| {' | '.join(map(str, cells))} |"


def counts(listed):
    """Tools, prompts, and resources with their templates."""
    if listed is None:
        return ["–"] * 3
    return [len(listed["tools"]), len(listed["prompts"]), len(listed["resources"]) + len(listed["templates"])]


def remarks(results):
    told = [(result["server"]["id"], remark(result)) for result in results]
    told = [(name, words) for name, words in told if words]
    if told:
        yield "## What they were given, and what was seen"
        yield ""
        yield from wrapped(
            "Keys of services are dummies. What is not in this list ran with nothing but its package and an empty workspace."
        )
        yield ""
    for name, words in told:
        yield from wrapped(f"- **{name}**: {'; '.join(words)}.", "  ")


def remark(result):
    server = result["server"]
    words = []
    if "args" in server:
        words.append("arguments " + " ".join(f"`{one}`" for one in server["args"]))
    if "env" in server:
        words.append("env " + ", ".join(f"`{name}`" for name in server["env"]))
    if "prepare" in server:
        words.append("workspace made by " + ", ".join(f"`{' '.join(command)}`" for command in server["prepare"]))
    for key, value in server.get("sandbox", {}).items():
        words.append(f"`{key}` " + (", ".join(f"`{one}`" for one in value) if isinstance(value, list) else f"`{value}`"))
    words += result["differences"]
    if "known" in server:
        words.append(f"known: {server['known']}")
    if "note" in server:
        words.append(server["note"])
    if result["attempts"]:
        words.append("reached for " + ", ".join(f"`{host}`" for host in result["attempts"]) + " and was refused")
    return words
