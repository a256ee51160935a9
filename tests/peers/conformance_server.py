"""Everything the official suite asks for, on the published Python SDK, as somebody would write it who never heard of a
gateway: plain `ctx.elicit` and `ctx.session.create_message`, which the SDK offers in the older era alone, and for the
newer one a result that asks, or a parameter that is resolved. Serves Streamable HTTP in both eras, as the SDK does by
itself, and prints its URL. Ends with its standard input.
"""

import asyncio
import os
import socket
import sys
import threading
import warnings
from base64 import b64decode
from typing import Annotated, Any

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample, UserMessage
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel, Field

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
WAV = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQgAAAAAAAAAAAAAAA=="
WATCHED = "test://watched-resource"
PACE = 0.05

warnings.simplefilter("ignore", MCPDeprecationWarning)
server = MCPServer("conformance-python", version="1.0.0", log_level="CRITICAL")


class Events(EventStore):
    """What was said on each stream, so that a stream can be resumed."""

    def __init__(self) -> None:
        self.events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events) - 1)

    async def replay_events_after(self, last_event_id, send_callback):
        if not last_event_id.isdecimal() or int(last_event_id) >= len(self.events):
            return None
        stream, first = self.events[int(last_event_id)][0], int(last_event_id) + 1
        for number, (of, message) in list(enumerate(self.events))[first:]:
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def resource(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    content = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(type="resource", resource=content)


# Content


@server.tool(structured_output=False)
def test_simple_text() -> str:
    """Returns one block of text."""
    return "This is a simple text response for testing."


@server.tool(structured_output=False)
def test_image_content() -> list[types.ImageContent]:
    """Returns a PNG of one pixel."""
    return [image()]


@server.tool(structured_output=False)
def test_audio_content() -> list[types.AudioContent]:
    """Returns a short WAV."""
    return [types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


@server.tool(structured_output=False)
def test_embedded_resource() -> list[types.EmbeddedResource]:
    """Returns an embedded resource."""
    return [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@server.tool(structured_output=False)
def test_multiple_content_types() -> list[types.ContentBlock]:
    """Returns text, an image and a resource."""
    data = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [text("Multiple content types test:"), image(), data]


@server.tool(structured_output=False)
def test_error_handling() -> str:
    """Always reports an error of its own."""
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool()
def greet(name: str) -> str:
    """Greets at once."""
    return f"Hello, {name}!"


@server.tool()
def confirm_delete(filename: str) -> str:
    """Deletes nothing."""
    return f"Kept {filename}"


@server.tool()
async def slow_compute(seconds: float = 0, label: str = "") -> str:
    """Sleeps, then answers."""
    await asyncio.sleep(min(seconds, 1))
    return f"Computed {label}"


RICH = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"required": ["phone"]},
    "then": {"properties": {"phone": {"minLength": 3}}},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def json_schema_2020_12_tool(name: str = "", address: Any = None, phone: str = "", email: str = "") -> str:
    """Takes arguments described with keywords of JSON Schema 2020-12."""
    return f"Hello, {name}!"


@server.tool()
def test_custom_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    priority: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Priority"})] = 0,
) -> str:
    """Takes arguments that a modern client repeats in headers."""
    return f"Region: {region}, priority: {priority}"


# What is said before the result, or elsewhere


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress at 0, 50 and 100."""
    for progress in (0, 50, 100):
        await ctx.report_progress(progress, 100, f"Completed {progress} of 100")
        await asyncio.sleep(PACE)
    return "Progress test completed"


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs three lines, 50 ms apart."""
    for line in ("started", "processing data", "completed"):
        await ctx.info(f"Tool execution {line}")
        await asyncio.sleep(PACE)
    return "Logging test completed"


@server.tool()
async def test_logging_tool(ctx: Context) -> str:
    """Logs one line if the caller wants logs."""
    await ctx.info("The logging tool was called")
    return "Logged, if that was wanted"


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    """Closes its event stream in the middle of the call."""
    await asyncio.sleep(PACE)
    await ctx.close_sse_stream()
    await asyncio.sleep(4 * PACE)
    return "Reconnection test completed"


@server.tool(structured_output=False)
def test_alternating_tool() -> str:
    """Is listed or not; test_trigger_tool_change decides."""
    return "Listed"


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    """Takes test_alternating_tool off the list, or puts it back."""
    if any(tool.name == "test_alternating_tool" for tool in await server.list_tools()):
        server.remove_tool("test_alternating_tool")
    else:
        server.add_tool(test_alternating_tool, structured_output=False)
    await ctx.notify_tools_changed()
    return "Changed and announced"


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Announces that the prompts changed."""
    await ctx.notify_prompts_changed()
    return "Announced"


# Questions of the older era


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Has the client's model answer a prompt."""
    message = types.SamplingMessage(role="user", content=text(prompt))
    answer = await ctx.session.create_message(messages=[message], max_tokens=100)
    return f"LLM response: {getattr(answer.content, 'text', '')}"


class Person(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Defaults(BaseModel):
    name: str = Field(default="John Doe", description="User name")
    age: int = Field(default=30, description="User age")
    score: float = Field(default=95.5, description="User score")
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True, description="Verification status")


PLAIN = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{number}", "title": f"Value {number}"} for number in (1, 2, 3)]
NAMED = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}


class Choices(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": PLAIN})
    titledSingle: str = Field(json_schema_extra={"oneOf": TITLED})
    legacyEnum: str = Field(json_schema_extra=NAMED)
    untitledMulti: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": PLAIN}})
    titledMulti: list[str] = Field(json_schema_extra={"items": {"anyOf": TITLED}})


async def elicited(ctx: Context, message: str, form: type[BaseModel]) -> str:
    answer = await ctx.elicit(message, form)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"User response: action={answer.action}, content={content}"


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user for a name and an address."""
    return await elicited(ctx, message, Person)


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks the user with a default for every field."""
    return await elicited(ctx, "Please review what is filled in", Defaults)


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks the user to choose, in five kinds of enumeration."""
    return await elicited(ctx, "Please choose", Choices)


# Questions of the newer era: a result that asks


def form(message: str, **fields: str) -> types.ElicitRequest:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in fields.items()},
        "required": list(fields),
    }
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def prompt(question: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(question))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


def filled_in(ctx: Context, key: str, field: str) -> Any:
    answer = (ctx.input_responses or {}).get(key)
    return (getattr(answer, "content", None) or {}).get(field)


@server.tool(structured_output=False)
async def test_input_required_result_elicitation(ctx: Context) -> str | types.InputRequiredResult:
    """Asks for a name and greets."""
    name = filled_in(ctx, "user_name", "name")
    if not isinstance(name, str):
        return types.InputRequiredResult(input_requests={"user_name": form("What is your name?", name="string")})
    return f"Hello, {name}!"


async def confirmed(ctx: Context) -> str | types.InputRequiredResult:
    if filled_in(ctx, "confirm", "ok") is None or ctx.request_state != "asked":
        question = {"confirm": form("Please confirm", ok="boolean")}
        return types.InputRequiredResult(input_requests=question, request_state="asked")
    return "state-ok"


@server.tool(structured_output=False)
async def test_input_required_result_request_state(ctx: Context) -> str | types.InputRequiredResult:
    """Asks for a confirmation and keeps a state."""
    return await confirmed(ctx)


@server.tool(structured_output=False)
async def test_input_required_result_tampered_state(ctx: Context) -> str | types.InputRequiredResult:
    """Asks for a confirmation and refuses a changed state."""
    return await confirmed(ctx)


@server.tool(structured_output=False)
async def test_input_required_result_multi_round(ctx: Context) -> str | types.InputRequiredResult:
    """Asks two questions, one after the other."""
    name, color = filled_in(ctx, "step1", "name"), filled_in(ctx, "step2", "color")
    if color is not None and ctx.request_state:
        return f"{ctx.request_state.removeprefix('name:')} likes {color}"
    if name is not None:
        second = {"step2": form("Step 2: What is your favorite color?", color="string")}
        return types.InputRequiredResult(input_requests=second, request_state=f"name:{name}")
    first = {"step1": form("Step 1: What is your name?", name="string")}
    return types.InputRequiredResult(input_requests=first, request_state="nobody")


@server.tool(structured_output=False)
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | types.InputRequiredResult:
    """Asks the user, the model and for roots at once."""
    questions = {
        "user_name": form("What is your name?", name="string"),
        "greeting": prompt("Generate a greeting"),
        "client_roots": types.ListRootsRequest(),
    }
    if not questions.keys() <= (ctx.input_responses or {}).keys():
        return types.InputRequiredResult(input_requests=questions, request_state="asked")
    return f"Everything was answered by {filled_in(ctx, 'user_name', 'name')}"


@server.tool(structured_output=False)
async def test_input_required_result_capabilities(ctx: Context) -> str | types.InputRequiredResult:
    """Asks in the ways the client declared."""
    if ctx.input_responses:
        return f"Answered: {', '.join(ctx.input_responses)}"
    questions, declared = {}, ctx.client_capabilities
    if declared and declared.sampling is not None:
        questions["model"] = prompt("Who are you?")
    if declared and declared.elicitation is not None:
        questions["user"] = form("Who are you?", name="string")
    return types.InputRequiredResult(input_requests=questions) if questions else "Nobody can be asked"


# Questions of either era: a parameter that is resolved


class Name(BaseModel):
    name: str


async def capital() -> Sample:
    return Sample([types.SamplingMessage(role="user", content=text("What is the capital of France?"))], max_tokens=100)


async def roots() -> ListRoots:
    return ListRoots()


async def name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


@server.tool()
async def test_input_required_result_sampling(answer: Annotated[types.CreateMessageResult, Resolve(capital)]) -> str:
    """Has the client's model name a capital."""
    return f"LLM response: {getattr(answer.content, 'text', '')}"


@server.tool()
async def test_missing_capability(answer: Annotated[types.CreateMessageResult, Resolve(capital)]) -> str:
    """Needs a client with sampling."""
    return f"LLM response: {getattr(answer.content, 'text', '')}"


@server.tool()
async def test_input_required_result_list_roots(found: Annotated[types.ListRootsResult, Resolve(roots)]) -> str:
    """Lists the client's roots."""
    return f"Roots: {', '.join(str(root.uri) for root in found.roots)}"


@server.tool()
async def test_streaming_elicitation(answer: Annotated[Name, Resolve(name)]) -> str:
    """Asks the user on the stream of the call."""
    return f"Hello, {answer.name}!"


# Resources, prompts and what they complete


@server.resource("test://static-text", mime_type="text/plain", description="Text that never changes.")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png", description="A PNG of one pixel.")
def static_binary() -> bytes:
    return b64decode(PNG)


@server.resource(WATCHED, mime_type="text/plain", description="Text that may change.")
def watched_resource() -> str:
    return "Watched resource content"


@server.resource("test://template/{id}/data", mime_type="application/json", description="Data of an id.")
def template(id: str) -> str:
    return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


@server.prompt()
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    """A prompt that brings a resource."""
    content = resource(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(content), UserMessage("Please process the embedded resource above.")]


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """A prompt that brings an image."""
    return [UserMessage(image()), UserMessage("Please analyze the image above.")]


@server.prompt()
async def test_input_required_result_prompt(ctx: Context) -> str | types.InputRequiredResult:
    """A prompt that asks what it is about."""
    about = filled_in(ctx, "user_context", "context")
    if about is None:
        question = {"user_context": form("What is this about?", context="string")}
        return types.InputRequiredResult(input_requests=question)
    return f"Consider {about}"


@server.completion()
async def complete(reference, argument, context):
    known = ["paris", "park", "party"] if argument.name == "arg1" else []
    values = [value for value in known if value.startswith(argument.value)]
    return types.Completion(values=values, total=len(values), has_more=False)


# Methods of the older era that the SDK leaves to the server, and a schema of our own


async def acknowledge(ctx, params) -> types.EmptyResult:
    return types.EmptyResult()


rich = server._tool_manager.add_tool(json_schema_2020_12_tool)
rich.parameters = RICH
low = server._lowlevel_server
low.add_request_handler("logging/setLevel", types.SetLevelRequestParams, acknowledge)
low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, acknowledge)
low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, acknowledge)


def main() -> None:
    threading.Thread(target=lambda: os._exit(bool(sys.stdin.buffer.read())), daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0))
    application = server.streamable_http_app(event_store=Events(), retry_interval=100)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(application, log_level="error")).run(sockets=[listener])


main()
