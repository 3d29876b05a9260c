"""A model on loopback that asks for one command, patch or call, and then is done, in the words of four vendors."""

import http.server
import json
import threading
from typing import ClassVar


class Model(http.server.ThreadingHTTPServer):
    """The server; `command` is what it asks for, `results` what it was told of it."""

    daemon_threads = True

    def __init__(self, command: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.command = command
        self.results: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


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
    asks = '"Bash"' in json.dumps(body.get("tools", [])) and "tool_result" not in text
    if "tool_result" in text:
        model.results.append(text)
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "mock", "content": [], "usage": usage}
    block: dict[str, object] = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    given = json.dumps({"command": model.command, "description": "x", "dangerouslyDisableSandbox": True})
    delta: dict[str, object] = {"type": "input_json_delta", "partial_json": given}
    if not asks:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
    return events(
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use" if asks else "end_turn", "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    )


def responses(body: dict[str, object], model: Model) -> str:
    text = json.dumps(body.get("input", []))
    item: dict[str, object]
    if "function_call_output" in text:
        model.results.append(text)
        content = [{"type": "output_text", "text": "done", "annotations": []}]
        item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": content}
    else:
        names = [tool.get("name") for tool in body.get("tools", []) if isinstance(tool, dict)]  # type: ignore[attr-defined]
        name = "exec_command" if "exec_command" in names else "shell"
        given = {"cmd": model.command} if name == "exec_command" else {"command": ["bash", "-lc", model.command]}
        if model.command.startswith("{"):
            name, given = next(iter(json.loads(model.command).items()))
        item = {"type": "function_call", "id": "f1", "name": name, "arguments": json.dumps(given), "call_id": "c1"}
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
    if "functionResponse" in text:
        model.results.append(text)
        parts: list[dict[str, object]] = [{"text": "done"}]
    else:
        parts = [
            {"functionCall": {"name": "run_shell_command", "args": {"command": model.command, "description": "x"}}}
        ]
    return f"data: {json.dumps(said_by_gemini(parts))}\n\n"


def completions(body: dict[str, object], model: Model) -> str:
    text = json.dumps(body.get("messages", []))
    delta: dict[str, object] = {"role": "assistant", "content": "done"}
    reason = "stop"
    if '"role": "tool"' in text:
        model.results.append(text)
    elif body.get("tools"):  # without any it is asked for a title
        words = {"command": model.command, "description": "x"}
        given = {"name": "bash", "arguments": json.dumps(words)}
        if model.command.startswith("*** "):
            given = {"name": "apply_patch", "arguments": json.dumps({"patchText": model.command})}
        if model.command.startswith("{"):
            given = {"name": next(iter(json.loads(model.command))), "arguments": model.command.partition(":")[2][:-1]}
        call: dict[str, object] = {"index": 0, "id": "c1", "type": "function", "function": given}
        if given["name"] == "apply_patch" and any(tool.get("type") == "custom" for tool in body["tools"]):  # type: ignore[attr-defined]
            call |= {"type": "custom", "custom": {"name": "apply_patch", "input": model.command}}
        delta = {"role": "assistant", "tool_calls": [call]}
        reason = "tool_calls"
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "mock"}
    rows = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]
    return "".join(f"data: {json.dumps(row)}\n\n" for row in rows) + "data: [DONE]\n\n"
