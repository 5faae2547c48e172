"""A channel between VESPER's two parties in two processes, on one host or two, over torch.distributed's gloo backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch

from gnnaudit.models.vesper.channel import Message, pack, unpack

PARTY_A, PARTY_B = 0, 1
LONGEST_HEADER = 1 << 10  # bytes; a header is a kind, a type and a shape


@dataclass(eq=False)
class Gloo:
    """One end of the channel. A message is sent as the lengths of its header and body, the header, and the body. peer: the rank
    of the other end.
    """

    peer: int

    def send(self, kind: str, payload: Message) -> None:
        from torch import distributed

        header, body = pack(kind, payload)
        lengths = np.array([len(header), len(body)], dtype=np.int64)
        distributed.send(torch.from_numpy(lengths).view(torch.uint8), self.peer)
        for part in (header, body):
            if part:
                distributed.send(torch.frombuffer(bytearray(part), dtype=torch.uint8), self.peer)

    def receive(self) -> tuple[str, Message]:
        """The next message. Raises ValueError if it is not on the whitelist, and RuntimeError if the peer is gone or silent."""
        lengths = torch.from_numpy(self._bytes(16)).view(torch.int64).tolist()
        if not (0 < lengths[0] <= LONGEST_HEADER and lengths[1] >= 0):
            raise ValueError(f"a message of {lengths[0]} and {lengths[1]} bytes: no party of this package sends such a header.")
        return unpack(self._bytes(lengths[0]).tobytes(), self._bytes(lengths[1]).tobytes())

    def _bytes(self, count: int) -> np.ndarray:
        from torch import distributed

        buffer = torch.empty(count, dtype=torch.uint8)
        if count:
            distributed.recv(buffer, self.peer)
        return buffer.numpy()


@contextmanager
def connected(rank: int, address: str, seconds: float = 300.0) -> Iterator[Gloo]:
    """This party's end of a channel, open within the context. rank: PARTY_A or PARTY_B. address: "host:port" of party A.

    seconds: how long to wait for the other party to connect, and for every message.
    """
    from torch import distributed

    distributed.init_process_group(
        "gloo", init_method=f"tcp://{address}", rank=rank, world_size=2, timeout=timedelta(seconds=seconds)
    )
    try:
        yield Gloo(1 - rank)
    finally:
        distributed.destroy_process_group()
