"""A provider of language models on loopback that answers what a test has written down.

It speaks as much of OpenAI's chat completions over HTTP as the `llm` library's own plugin needs.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Provider:
    """What the model answers, in order; the last answer again and again.

    An answer is text, an object to be sent as JSON, or made by one of the functions below.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.asked = threading.Event()
        self.ended = threading.Event()

    def answer(self, *answers: Any) -> None:
        self.answers = list(answers)

    @property
    def prompts(self) -> list[dict[str, Any]]:
        """The documents in the user's messages; a schema after a document is left out."""
        texts = (request["messages"][-1]["content"] for request in self.requests)
        return [json.JSONDecoder().raw_decode(text)[0] for text in texts]

    @property
    def schemas(self) -> list[Any]:
        formats = (request.get("response_format") for request in self.requests)
        return [it and it["json_schema"]["schema"] for it in formats]

    def next(self) -> Any:
        return self.answers[min(len(self.requests), len(self.answers)) - 1]


def fails(status: int, message: str = "no", **headers: str) -> dict[str, Any]:
    """Return an answer that is an HTTP error."""
    return {"status": status, "body": {"error": {"message": message}}, "headers": headers}


def refuses(text: str) -> dict[str, Any]:
    """Return an answer in which the model refuses, as those with schemas do."""
    return said(None, refusal=text)


def hangs() -> dict[str, Any]:
    """Return an answer that never comes."""
    return {"hang": True}


def said(text: str | None, *, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """Return the HTTP answer of a model that says a text."""
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": text, **message},
    }
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    return {"status": 200, "body": body, "headers": {}}


@contextmanager
def provider() -> Iterator[Provider]:
    """Serve a provider for the `with` block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            script.keys.append(self.headers.get("Authorization"))
            script.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            script.asked.set()
            answer = script.next()
            if isinstance(answer, str):
                answer = said(answer)
            elif "body" not in answer and "hang" not in answer:
                answer = said(json.dumps(answer))
            if "hang" in answer:
                script.ended.wait(60)
                return
            content = json.dumps(answer["body"]).encode()
            self.send_response(answer["status"])
            for name, value in answer["headers"].items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script = Provider(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        script.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
