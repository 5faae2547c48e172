"""The only connection between the two parties: a channel that carries bytes and has a whitelist of messages."""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

# kind -> (dtype, dimensions). Rows are sent as (runs, layers, dim, rows).
WHITELIST = {
    "HELLO": ("uint8", 1),  # a digest of the recipe and of the node count; both parties must send the same
    "REFRESH": ("int64", 1),  # B asks for a new noisy pass over the whole graph; empty payload
    "LAYER0": ("int64", 1),  # B asks for the edge-free rows of these node ids, to learn from
    "BATCH": ("int64", 1),  # B asks for the rows of these node ids, to learn from
    "FWD": ("float32", 4),  # A's rows
    "BWD": ("float32", 4),  # B's gradient with respect to these rows
    "EVAL_REQ": ("int64", 1),  # B asks for rows and will send no gradient for them
    "EVAL": ("float32", 4),
    "DONE": ("int64", 1),  # A confirms that it used a gradient or made a noisy pass; empty payload
    "REFUSED": ("int64", 1),  # A refuses, because the budget is spent; empty payload
    "STOP": ("int64", 1),
}
Message = NDArray[Any]
EMPTY: Message = np.empty(0, dtype=np.int64)


class BudgetSpent(RuntimeError):
    """Party B requested more answers than the ledger covers, to which the noise was calibrated."""


class Channel(Protocol):
    """One end of the connection of A and B, which carries messages of the whitelist in order."""

    def send(self, kind: str, payload: Message) -> None: ...

    def receive(self) -> tuple[str, Message]: ...


def pack(kind: str, payload: Message) -> tuple[bytes, bytearray]:
    """The header and the body of a message; the body is a copy of the payload. Raises ValueError for a message that is not on the
    whitelist.
    """
    dtype = named(payload.dtype)
    _check(kind, dtype, payload.ndim)
    header = json.dumps([kind, dtype, list(payload.shape)]).encode()
    return header, bytearray(np.ascontiguousarray(payload).view(np.uint8).data)


@cache
def named(dtype: np.dtype[Any]) -> str:
    return str(dtype)


def unpack(header: bytes, body: bytes | bytearray) -> tuple[str, Message]:
    """The kind and the payload of a message. The payload shares the memory of the body if the body is a bytearray.

    Raises ValueError for a message that is not on the whitelist.
    """
    kind, dtype, shape = json.loads(header)
    _check(kind, dtype, len(shape))
    own = body if isinstance(body, bytearray) else bytearray(body)
    return kind, np.frombuffer(own, dtype=dtype).reshape(shape)


def _check(kind: str, dtype: str, dimensions: int) -> None:
    if WHITELIST.get(kind) != (dtype, dimensions):
        allowed = WHITELIST.get(kind, "no such kind")
        raise ValueError(f"message {kind} of {dtype} in {dimensions} dimensions: the channel's whitelist has {allowed}.")


def ask(channel: Channel, kind: str, payload: Message, answer: str) -> Message:
    """Sends a request and returns the payload of its answer, which must be of kind `answer`. Raises BudgetSpent if A refuses, and
    ValueError for an answer of another kind.
    """
    channel.send(kind, payload)
    got, rows = channel.receive()
    if got == "REFUSED":
        raise BudgetSpent(f"party A refused {kind}: its privacy budget is spent.")
    if got != answer:
        raise ValueError(f"party A answered {kind} with {got} instead of {answer}.")
    return rows


@dataclass(eq=False)
class Pipe:
    """One end of a channel within one process. Only bytes pass: no tensor, autograd graph or storage is shared.

    serve: a function that lets the other party answer. It is called when this end waits for a message that is not there yet.
    """

    inbox: deque[tuple[bytes, bytearray]] = field(default_factory=deque)
    outbox: deque[tuple[bytes, bytearray]] = field(default_factory=deque)
    serve: Callable[[], object] | None = None
    sent: int = 0  # number of bytes in the bodies of all messages

    def send(self, kind: str, payload: Message) -> None:
        message = pack(kind, payload)
        self.sent += len(message[1])
        self.outbox.append(message)

    def receive(self) -> tuple[str, Message]:
        if not self.inbox and self.serve is not None:
            self.serve()
        return unpack(*self.inbox.popleft())


def in_one_process(answer: Callable[[Channel], object]) -> Pipe:
    """B's end of a new channel. answer: party A's function, which answers one message at the other end."""
    a, b = Pipe(), Pipe()
    b.inbox, b.outbox = a.outbox, a.inbox
    b.serve = lambda: answer(a)
    return b


@dataclass(eq=False)
class Recorder:
    """B's end of a channel. It records the messages of these kinds, sent and received, in order."""

    channel: Channel
    kinds: tuple[str, ...]
    messages: list[tuple[str, Message]] = field(default_factory=list)

    def send(self, kind: str, payload: Message) -> None:
        self._keep(kind, payload)
        self.channel.send(kind, payload)

    def receive(self) -> tuple[str, Message]:
        kind, payload = self.channel.receive()
        self._keep(kind, payload)
        return kind, payload

    def _keep(self, kind: str, payload: Message) -> None:
        if kind in self.kinds:
            self.messages.append((kind, payload))
