"""OpenAI's completions API as vLLM implements it: parsing of requests, and the bytes of answers.

Tokens are counted by one rule, so that clients can ask for exact lengths: a token is a word between white space, in
prompts and in answers. In a prompt of token ids, each id is one token. Token n of an answer is the word n, so that a
client notices missing or repeated tokens. The model never ends by itself: an answer has `max_tokens` tokens. If a chat
request states no `max_tokens`, its answer has a fixed number of tokens and the finish reason `stop`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from forebay.simulation.engine.engine_stats import FinishReason

COMPLETION_TOKENS: Final = 16
"""OpenAI's default for `max_tokens` of a completion."""
DONE: Final = b"data: [DONE]\n\n"


class RefusedError(Exception):
    """A request is answered with an error, in OpenAI's error format."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


@dataclass(frozen=True, slots=True)
class RequestRules:
    """Which requests this server accepts."""

    models: tuple[str, ...]
    any_model: bool
    """Whether any model name is accepted: VLLM_SKIP_MODEL_NAME_VALIDATION."""
    max_model_len: int
    default_output_tokens: int
    """Answer length of a chat request without `max_tokens`."""
    force_usage: bool


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """One parsed request."""

    chat: bool
    model: str
    prompt_tokens: int
    output_tokens: int
    reason: FinishReason
    stream: bool
    include_usage: bool
    continuous_usage: bool


def read_request(body: object, rules: RequestRules, *, chat: bool) -> CompletionRequest:
    """Parse a request's JSON. Raises `RefusedError` where vLLM would refuse the request."""
    if not isinstance(body, dict):
        raise _bad('the body is not a JSON object; send {"model": …, "prompt": …}')
    model = body.get("model", rules.models[0])
    if model not in rules.models and not rules.any_model:
        raise RefusedError(404, "NotFoundError", f"The model `{model}` does not exist.", "model")
    if body.get("n", 1) not in (1, None):
        raise _bad(f"n: {body['n']} is not supported by the simulator; send several requests", "n")
    prompt_tokens = _chat_tokens(body.get("messages")) if chat else _prompt_tokens(body.get("prompt"))
    if prompt_tokens >= rules.max_model_len:
        raise _bad(
            f"This model's maximum context length is {rules.max_model_len} tokens. However, your request has "
            f"{prompt_tokens} input tokens. Please reduce the length of the input messages.",
            "messages" if chat else "prompt",
        )
    available_tokens = rules.max_model_len - prompt_tokens
    max_tokens = _max_tokens(body, chat=chat)
    if max_tokens is not None and max_tokens > available_tokens:
        raise _bad(
            f"'max_tokens' or 'max_completion_tokens' is too large: {max_tokens}. This model's maximum context length "
            f"is {rules.max_model_len} tokens and your request has {prompt_tokens} input tokens "
            f"({max_tokens} > {rules.max_model_len} - {prompt_tokens}).",
            "max_tokens",
        )
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise _bad('stream_options: not an object; send {"include_usage": true}', "stream_options")
    return CompletionRequest(
        chat=chat,
        model=str(model),
        prompt_tokens=prompt_tokens,
        output_tokens=min(available_tokens, rules.default_output_tokens) if max_tokens is None else max_tokens,
        reason="stop" if max_tokens is None else "length",
        stream=bool(body.get("stream")),
        include_usage=rules.force_usage or bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
    )


def _bad(message: str, param: str | None = None) -> RefusedError:
    return RefusedError(400, "BadRequestError", message, param)


def _max_tokens(body: dict[str, Any], *, chat: bool) -> int | None:
    """The longest answer that a request asks for; None if it leaves the length to the model."""
    name = "max_completion_tokens" if chat and body.get("max_completion_tokens") is not None else "max_tokens"
    max_tokens = body.get(name)
    if max_tokens is None:
        return None if chat else COMPLETION_TOKENS
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise _bad(f"{name} must be at least 1, got {max_tokens}.", name)
    return max_tokens


def _prompt_tokens(prompt: object) -> int:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        tokens = len(prompt.split())
    elif isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        tokens = len(prompt)
    else:
        raise _bad("prompt: neither text nor a list of token ids; the simulator takes one prompt a request", "prompt")
    if tokens == 0:
        raise _bad("The decoder prompt cannot be empty", "prompt")
    return tokens


def _chat_tokens(messages: object) -> int:
    """Words of all message contents. A chat template would add a few tokens; they are left out to keep counts exact."""
    if not isinstance(messages, list) or not messages:
        raise _bad("messages: not a list of messages with role and content", "messages")
    tokens = 0
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        tokens += len(str(content or "").split())
    return max(1, tokens)


class CompletionAnswer:
    """The bytes of one answer. The parts that are the same for every token are rendered once."""

    def __init__(self, request: CompletionRequest, request_id: str, created: int) -> None:
        self._request = request
        self._id = f"{'chatcmpl' if request.chat else 'cmpl'}-{request_id}"
        self._created = created
        kind = "chat.completion.chunk" if request.chat else "text_completion"
        self._head = (
            f'data: {{"id":"{self._id}","object":"{kind}","created":{created},"model":{json.dumps(request.model)},'
        )
        self._text = '"choices":[{"index":0,"delta":{"content":"' if request.chat else '"choices":[{"index":0,"text":"'
        self._after = '"},' if request.chat else '",'
        self._token_head = self._head + self._text

    def opening(self) -> bytes:
        """The event before the first token of a chat answer, which carries the role; empty for a completion."""
        if not self._request.chat:
            return b""
        delta = '"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        return f"{self._head}{delta}{self._running_usage(0)}}}\n\n".encode()

    def token(self, index: int, reason: FinishReason | None) -> bytes:
        """The event of token `index`, counted from 1; `reason` is given with the last token."""
        finish = f'"{reason}"' if reason else "null"
        text = _word(index)
        end = f'"logprobs":null,"finish_reason":{finish},"stop_reason":null}}]{self._running_usage(index)}}}\n\n'
        return f"{self._token_head}{text}{self._after}{end}".encode()

    def closing(self, tokens: int) -> bytes:
        """The bytes after the last token: usage, if it was asked for, and the end mark."""
        if not self._request.include_usage:
            return DONE
        usage = json.dumps(self._usage(tokens))
        return f'{self._head}"choices":[],"usage":{usage}}}\n\n'.encode() + DONE

    def whole(self, tokens: int) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        text = "".join(map(_word, range(1, tokens + 1)))
        choice: dict[str, Any] = {
            "index": 0,
            "logprobs": None,
            "finish_reason": self._request.reason,
            "stop_reason": None,
        }
        choice |= {"message": {"role": "assistant", "content": text}} if self._request.chat else {"text": text}
        return {
            "id": self._id,
            "object": "chat.completion" if self._request.chat else "text_completion",
            "created": self._created,
            "model": self._request.model,
            "choices": [choice],
            "usage": self._usage(tokens),
        }

    def _running_usage(self, tokens: int) -> str:
        return f',"usage":{json.dumps(self._usage(tokens))}' if self._request.continuous_usage else ""

    def _usage(self, tokens: int) -> dict[str, int]:
        prompt = self._request.prompt_tokens
        return {"prompt_tokens": prompt, "total_tokens": prompt + tokens, "completion_tokens": tokens}


def _word(index: int) -> str:
    return f" {index}"
