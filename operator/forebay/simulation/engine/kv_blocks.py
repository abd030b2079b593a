"""The paged KV cache of one engine, counted without looking at single sequences.

Every decoding sequence grows by one token per step, so it asks for a block once in `size` steps, always in the same
phase of that cycle. Counting sequences per phase gives the demand of any number of steps in at most `size` additions.
"""

from __future__ import annotations


class KVBlocks:
    """Blocks of a fixed number of tokens; vLLM keeps one of them as the null block, so `total − 1` can be used."""

    __slots__ = ("_decoding", "_phases", "_steps", "free", "size", "usable")

    def __init__(self, total: int, size: int) -> None:
        if size < 1 or total < 2:
            raise ValueError(f"KV cache: {total} blocks of {size} tokens hold nothing; at least 2 blocks are needed")
        self.size = size
        self.usable = total - 1
        self.free = self.usable
        self._phases = [0] * size
        self._steps = 0
        self._decoding = 0

    @property
    def used_fraction(self) -> float:
        """vLLM's `kv_cache_usage_perc`: 1 − free/(blocks − 1), between 0 and 1."""
        return 1 - self.free / self.usable

    def holding(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self.size)

    def extending(self, tokens: int, more: int) -> int:
        """Blocks needed on top for a sequence of `tokens` that grows by `more`."""
        return self.holding(tokens + more) - self.holding(tokens)

    def join(self, tokens: int) -> None:
        """A sequence of so many tokens starts to decode."""
        self._phases[(tokens - self._steps) % self.size] += 1
        self._decoding += 1

    def leave(self, tokens: int) -> None:
        """A decoding sequence, now of so many tokens, stops and gives its blocks back."""
        self._phases[(tokens - self._steps) % self.size] -= 1
        self._decoding -= 1
        self.free += self.holding(tokens)

    def demand(self) -> int:
        """Blocks that the next decode step asks for: those of sequences whose last block is full."""
        return self._phases[-self._steps % self.size]

    def grow(self, steps: int) -> None:
        """Let every decoding sequence take one token in each of so many steps; the caller knows that they fit."""
        self.free -= self._demand_of(steps)
        self._steps += steps

    def steps_that_fit(self, limit: int) -> int:
        """How many decode steps, at most `limit`, the free blocks allow."""
        if (limit // self.size + 1) * self._decoding <= self.free:
            return limit
        cycles, left = divmod(self.free, self._decoding)
        steps = cycles * self.size
        while steps < limit and left >= (asked := self._phases[-(self._steps + steps) % self.size]):
            left -= asked
            steps += 1
        return min(steps, limit)

    def _demand_of(self, steps: int) -> int:
        cycles, rest = divmod(steps, self.size)
        asked = cycles * self._decoding
        for step in range(self._steps, self._steps + rest):
            asked += self._phases[-step % self.size]
        return asked
