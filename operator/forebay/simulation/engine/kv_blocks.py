"""The paged KV cache of one engine: how many blocks are free, and how many the next decode steps need.

It is counted without looking at single sequences, so that a run of decode steps costs little. Every decoding sequence
grows by one token per step, so it needs a new block once every `size` steps, always in the same phase of that cycle.
With the number of sequences per phase, the demand of any number of steps takes at most `size` additions.
"""

from __future__ import annotations


class KVBlocks:
    """Blocks of `size` tokens each. vLLM keeps one block as the null block, so `total − 1` can be used."""

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

    def blocks_for(self, tokens: int) -> int:
        """The number of blocks that hold so many tokens."""
        return -(-tokens // self.size)

    def blocks_to_extend(self, tokens: int, more: int) -> int:
        """The number of additional blocks for a sequence of `tokens` that grows by `more`."""
        return self.blocks_for(tokens + more) - self.blocks_for(tokens)

    def join(self, tokens: int) -> None:
        """Add a sequence of so many tokens that starts to decode."""
        self._phases[(tokens - self._steps) % self.size] += 1
        self._decoding += 1

    def leave(self, tokens: int) -> None:
        """Remove a decoding sequence that now has so many tokens, and free its blocks."""
        self._phases[(tokens - self._steps) % self.size] -= 1
        self._decoding -= 1
        self.free += self.blocks_for(tokens)

    def demand(self) -> int:
        """The number of blocks that the next decode step needs: one per sequence whose last block is full."""
        return self._phases[-self._steps % self.size]

    def grow(self, steps: int) -> None:
        """Let every decoding sequence grow by one token in each of so many steps. The caller checks that they fit."""
        self.free -= self._demand_of(steps)
        self._steps += steps

    def steps_that_fit(self, limit: int) -> int:
        """The number of decode steps, at most `limit`, for which the free blocks suffice."""
        if (limit // self.size + 1) * self._decoding <= self.free:
            return limit
        cycles, remaining = divmod(self.free, self._decoding)
        steps = cycles * self.size
        while steps < limit and remaining >= (demand := self._phases[-(self._steps + steps) % self.size]):
            remaining -= demand
            steps += 1
        return min(steps, limit)

    def _demand_of(self, steps: int) -> int:
        cycles, rest = divmod(steps, self.size)
        demand = cycles * self._decoding
        for step in range(self._steps, self._steps + rest):
            demand += self._phases[-step % self.size]
        return demand
