"""A model on loopback that asks for commands, patches or calls, one by one, in the words of four vendors."""

import http.server
import json
import re
import threading
from collections.abc import Callable
from typing import ClassVar


class Model(http.server.ThreadingHTTPServer):
    """The server; `commands` are what it asks for, each after a call of `before`; `told` what it was told of them."""

    daemon_threads = True

    def __init__(self, commands: tuple[str, ...], before: Callable[[int], None] = lambda number: None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.commands, self.before = commands, before
        self.told = ""
        self.answered = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next(self, text: str, answered: int) -> str:
        """What is asked for next of who has answered so much; nothing when that was all."""
        if answered:
            self.told, self.answered = text, answered
        if answered >= len(self.commands):
            return ""
        self.before(answered)
        return self.commands[answered]


class Handler(http.server.BaseHTTPRequestHandler):
    """One request, told apart by its path."""

    server: Model
    protocol_version = "HTTP/1.1"
    quiet: ClassVar[bool] = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.answer("application/json", json.dumps({"data": [], "models": []}))

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/messages"):
            self.answer("text/event-stream", anthropic(body, self.server))
        elif path.endswith("/responses"):
            self.answer("text/event-stream", responses(body, self.server))
        elif "streamGenerateContent" in path:
            self.answer("text/event-stream", gemini(body, self.server))
        elif "generateContent" in path:
            self.answer(
                "application/json", json.dumps(said_by_gemini([{"text": '{"reasoning":"x","model_choice":"pro"}'}]))
            )
        elif path.endswith("/chat/completions"):
            self.answer("text/event-stream", completions(body, self.server))
        else:
            self.answer("application/json", json.dumps({"input_tokens": 1, "totalTokens": 1}))

    def answer(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def events(*rows: dict[str, object]) -> str:
    return "".join(f"event: {row['type']}\ndata: {json.dumps(row)}\n\n" for row in rows)


def anthropic(body: dict[str, object], model: Model) -> str:
    text = json.dumps(body.get("messages", []))
    number = text.count('"type": "tool_result"')
    command = model.next(text, number) if '"Bash"' in json.dumps(body.get("tools", [])) else ""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "mock", "content": [], "usage": usage}
    block: dict[str, object] = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {}}
    given = json.dumps({"command": command, "description": "x", "dangerouslyDisableSandbox": True})
    delta: dict[str, object] = {"type": "input_json_delta", "partial_json": given}
    if not command:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
    return events(
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use" if command else "end_turn", "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    )


def responses(body: dict[str, object], model: Model) -> str:
    text = json.dumps(body.get("input", []))
    number = len(re.findall('"type": "(?:function|custom_tool)_call_output"', text))
    command = model.next(text, number)
    item: dict[str, object]
    if not command:
        content = [{"type": "output_text", "text": "done", "annotations": []}]
        item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": content}
    else:
        names = [tool.get("name") for tool in body.get("tools", []) if isinstance(tool, dict)]  # type: ignore[attr-defined]
        name = "exec_command" if "exec_command" in names else "shell"
        given = {"cmd": command} if name == "exec_command" else {"command": ["bash", "-lc", command]}
        if command.startswith("{"):
            name, given = next(iter(json.loads(command).items()))
        call = {"id": f"f{number}", "call_id": f"c{number}"}
        item = {"type": "function_call", "name": name, "arguments": json.dumps(given), **call}
        if not names:  # to its newer models Codex offers code alone, which calls the other tools
            inner = f"apply_patch({json.dumps(command)})"
            inner = inner if command.startswith("*** ") else f"exec_command({json.dumps({'cmd': command})})"
            code = f"text(await tools.{inner}.catch(String))"
            item = {"type": "custom_tool_call", "name": "exec", "input": code, **call}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return events(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "usage": usage, "output": [item]}},
    )


def said_by_gemini(parts: list[dict[str, object]]) -> dict[str, object]:
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}


def gemini(body: dict[str, object], model: Model) -> str:
    text = json.dumps(body.get("contents", []))
    parts: list[dict[str, object]] = [{"text": "done"}]
    if command := model.next(text, text.count('"functionResponse"')):
        parts = [{"functionCall": {"name": "run_shell_command", "args": {"command": command, "description": "x"}}}]
    return f"data: {json.dumps(said_by_gemini(parts))}\n\n"


def completions(body: dict[str, object], model: Model) -> str:
    text = json.dumps(body.get("messages", []))
    number = text.count('"role": "tool"')
    delta: dict[str, object] = {"role": "assistant", "content": "done"}
    reason = "stop"
    if body.get("tools") and (command := model.next(text, number)):  # without any it is asked for a title
        given = {"name": "bash", "arguments": json.dumps({"command": command, "description": "x"})}
        if command.startswith("*** "):
            given = {"name": "apply_patch", "arguments": json.dumps({"patchText": command})}
        if command.startswith("{"):
            given = {"name": next(iter(json.loads(command))), "arguments": command.partition(":")[2][:-1]}
        call: dict[str, object] = {"index": 0, "id": f"c{number}", "type": "function", "function": given}
        if given["name"] == "apply_patch" and any(tool.get("type") == "custom" for tool in body["tools"]):  # type: ignore[attr-defined]
            call |= {"type": "custom", "custom": {"name": "apply_patch", "input": command}}
        delta = {"role": "assistant", "tool_calls": [call]}
        reason = "tool_calls"
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    rows = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]
    return "".join(f"data: {json.dumps(row)}\n\n" for row in rows) + "data: [DONE]\n\n"
