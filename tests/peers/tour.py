"""Goes through what a server offers with a Python client: a call with progress, a resource, a prompt, a completion, a call
that asks its caller something, and one that logs; prints one JSON object.

usage: tour.py CLIENT MODE URL TOKEN PLAN        CLIENT: mcp | fastmcp        MODE: auto | legacy | 2026-07-28
"""

import asyncio
import json
import os
import ssl
import sys
import time

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, PromptReference

ANSWER = {"username": "ann", "email": "ann@example.org"}


async def tour(client, mode: str, plan: dict, asked: list, logs: list) -> dict:
    seen = {"progress": []}
    times = []

    async def on_progress(progress, total, message):
        times.append(time.monotonic())
        seen["progress"].append(int(progress))

    async def call(tool, **options):
        return (await client.call_tool(*tool, **options)).content[0].text

    listed = await client.list_tools()
    seen["tools"] = len(getattr(listed, "tools", listed)) > 0
    option = "progress_callback" if isinstance(client, Client) else "progress_handler"
    await call(plan["progress"], **{option: on_progress})
    seen["ahead"] = round(1000 * (time.monotonic() - times[0]))
    read = await client.read_resource(plan["resource"])
    seen["resource"] = getattr(read, "contents", read)[0].text
    seen["prompt"] = (await client.get_prompt(*plan["prompt"])).messages[0].content.text
    name, argument, value = plan["completion"]
    completed = await client.complete(PromptReference(name=name), {"name": argument, "value": value})
    seen["completion"] = getattr(completed, "completion", completed).values
    if plan["asking"]:
        seen["answer"] = await call(plan["asking"])
    seen["asked"] = asked
    if plan["logging"] and mode == "legacy":
        await client.set_logging_level("debug")
        await call(plan["logging"])
        for _ in range(100):
            if len(logs) < 3:
                await asyncio.sleep(0.05)
    seen["logs"] = logs
    return seen


async def main(which: str, mode: str, url: str, token: str, plan: str) -> None:
    trust = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
    asked, logs = [], []

    async def log(message):
        logs.append(message.data)

    if which == "fastmcp":
        import fastmcp
        from fastmcp.client.elicitation import ElicitResult as FastElicitResult
        from fastmcp.client.transports import StreamableHttpTransport

        async def fill(message, response_type, params, context):
            asked.append(message)
            return FastElicitResult(action="accept", content=ANSWER)

        transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"}, verify=trust)
        async with fastmcp.Client(transport, mode=mode, elicitation_handler=fill, log_handler=log) as client:
            print(json.dumps(await tour(client, mode, json.loads(plan), asked, logs)))
        return

    async def elicit(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content=ANSWER)

    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, verify=trust, timeout=30) as http_client:
        transport = streamable_http_client(url, http_client=http_client)
        async with Client(transport, mode=mode, elicitation_callback=elicit, logging_callback=log) as client:
            print(json.dumps(await tour(client, mode, json.loads(plan), asked, logs)))


asyncio.run(main(*sys.argv[1:]))
