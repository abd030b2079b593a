"""OpenAI's completions as vLLM speaks them: what is read of a request, and the bytes of an answer.

Text is counted by one rule, so that clients can ask for exact lengths: a token is a word between white space, in
prompts as in answers; a prompt given as token ids counts them. Token number n of an answer is the word n, so that a
client sees what is missing or doubled. There is no end of sequence: an answer has `max_tokens` tokens, or, where a chat
request states no bound, a fixed number and the finish reason `stop`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from forebay.simulation.engine.engine_stats import Reason

COMPLETION_TOKENS: Final = 16
"""OpenAI's default for `max_tokens` of a completion."""
DONE: Final = b"data: [DONE]\n\n"


class RefusedError(Exception):
    """A request that gets an error in OpenAI's shape."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


@dataclass(frozen=True, slots=True)
class Rules:
    """What this server takes."""

    models: tuple[str, ...]
    any_model: bool
    """VLLM_SKIP_MODEL_NAME_VALIDATION."""
    max_model_len: int
    unbounded_tokens: int
    """Answer length of a chat request that states none."""
    force_usage: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, read."""

    chat: bool
    model: str
    prompt_tokens: int
    output_tokens: int
    reason: Reason
    stream: bool
    include_usage: bool
    continuous_usage: bool


def read_request(body: object, rules: Rules, *, chat: bool) -> Ask:
    """Read a request's JSON; raises `RefusedError` like vLLM would."""
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
    room = rules.max_model_len - prompt_tokens
    wanted = _wanted_tokens(body, chat=chat)
    if wanted is not None and wanted > room:
        raise _bad(
            f"'max_tokens' or 'max_completion_tokens' is too large: {wanted}. This model's maximum context length is "
            f"{rules.max_model_len} tokens and your request has {prompt_tokens} input tokens "
            f"({wanted} > {rules.max_model_len} - {prompt_tokens}).",
            "max_tokens",
        )
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise _bad('stream_options: not an object; send {"include_usage": true}', "stream_options")
    return Ask(
        chat=chat,
        model=str(model),
        prompt_tokens=prompt_tokens,
        output_tokens=min(room, rules.unbounded_tokens) if wanted is None else wanted,
        reason="stop" if wanted is None else "length",
        stream=bool(body.get("stream")),
        include_usage=rules.force_usage or bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
    )


def _bad(message: str, param: str | None = None) -> RefusedError:
    return RefusedError(400, "BadRequestError", message, param)


def _wanted_tokens(body: dict[str, Any], *, chat: bool) -> int | None:
    """The bound a request states; None where it leaves the length to the model."""
    name = "max_completion_tokens" if chat and body.get("max_completion_tokens") is not None else "max_tokens"
    wanted = body.get(name)
    if wanted is None:
        return None if chat else COMPLETION_TOKENS
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise _bad(f"{name} must be at least 1, got {wanted}.", name)
    return wanted


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
    """Words of all contents; a chat template would add a few, which are left out to keep counts exact."""
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
    """The bytes of one answer; the parts that do not change from token to token are put together once."""

    def __init__(self, ask: Ask, request_id: str, created: int) -> None:
        self._ask = ask
        self._id = f"{'chatcmpl' if ask.chat else 'cmpl'}-{request_id}"
        self._created = created
        kind = "chat.completion.chunk" if ask.chat else "text_completion"
        self._head = f'data: {{"id":"{self._id}","object":"{kind}","created":{created},"model":{json.dumps(ask.model)},'
        self._text = '"choices":[{"index":0,"delta":{"content":"' if ask.chat else '"choices":[{"index":0,"text":"'
        self._after = '"},' if ask.chat else '",'
        self._token_head = self._head + self._text

    def opening(self) -> bytes:
        """What comes with the first token of a chat: whose turn it is."""
        if not self._ask.chat:
            return b""
        delta = '"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        return f"{self._head}{delta}{self._running_usage(0)}}}\n\n".encode()

    def token(self, index: int, reason: Reason | None) -> bytes:
        """The event of token `index`, counted from 1; `reason` comes with the last one."""
        finish = f'"{reason}"' if reason else "null"
        text = _word(index)
        end = f'"logprobs":null,"finish_reason":{finish},"stop_reason":null}}]{self._running_usage(index)}}}\n\n'
        return f"{self._token_head}{text}{self._after}{end}".encode()

    def closing(self, tokens: int) -> bytes:
        """What follows the last token: usage when it was asked for, and the end mark."""
        if not self._ask.include_usage:
            return DONE
        usage = json.dumps(self._usage(tokens))
        return f'{self._head}"choices":[],"usage":{usage}}}\n\n'.encode() + DONE

    def whole(self, tokens: int) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        text = "".join(map(_word, range(1, tokens + 1)))
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": self._ask.reason, "stop_reason": None}
        choice |= {"message": {"role": "assistant", "content": text}} if self._ask.chat else {"text": text}
        return {
            "id": self._id,
            "object": "chat.completion" if self._ask.chat else "text_completion",
            "created": self._created,
            "model": self._ask.model,
            "choices": [choice],
            "usage": self._usage(tokens),
        }

    def _running_usage(self, tokens: int) -> str:
        return f',"usage":{json.dumps(self._usage(tokens))}' if self._ask.continuous_usage else ""

    def _usage(self, tokens: int) -> dict[str, int]:
        prompt = self._ask.prompt_tokens
        return {"prompt_tokens": prompt, "total_tokens": prompt + tokens, "completion_tokens": tokens}


def _word(index: int) -> str:
    return f" {index}"
