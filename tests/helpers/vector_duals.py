"""ADMM on vectors as its formulas say it, in plain numpy: duals of what arrives, and duals from sums of all that was
sent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from tests.helpers.vector_rules import Arrived, Known, Rule, Samples, solved
from tests.helpers.vector_sums import Sums


class Admm(Rule):
    """A protocol of ADMM: its dual adds up what arrives, or comes from sums of all that was sent."""

    def __init__(self, known: Known, penalty: float = 0.1, sums: bool = False, **_: Any) -> None:
        super().__init__(known)
        self.penalty, self.kept, self.by_sums = penalty, known.kept, sums
        self.dual = np.zeros(self.weights.size)
        self.clock, self.age, self.base = 0, 0.0, np.zeros(self.weights.size)
        self.own: dict[int, Array] = {}
        """S(t), the sum of all weights that the node has sent in rounds until t."""
        self.newest: list[tuple[int, Array, Array] | None] = [None] * len(known.degrees)
        """Of each neighbour the round t_j of the newest message, its vector, and S(t_j) - S_j(t_j)."""

    def see(self, samples: Samples) -> None:
        pass

    def say(self) -> Array:
        return self.weights.reshape(-1)

    @abstractmethod
    def solve(self, last_sent: Array, apart: Array, near: float, samples: Samples) -> None:
        """Move the weights."""

    def weigh(self, vectors: Sequence[Array], counts: Array) -> None:
        pass

    def adapt(self, samples: Samples) -> None:
        self.see(samples)
        if self.by_sums:
            self.go_on_to(self.clock + 1)

    def send(self) -> Array:
        own = self.say()
        return np.concatenate([own, self.sum_at(self.clock), [self.clock, self.age]]) if self.by_sums else own

    def receive(self, arrived: Arrived, samples: Samples) -> None:
        size, rho = self.dual.size, self.penalty
        if self.by_sums:
            self.compare(arrived)
            there = [entry for entry in self.newest if entry is not None]
            nothing = np.zeros((0, len(self.say())))
            arrived = Arrived(
                self.say(), np.array([message for _, message, _ in there] or nothing), np.ones(len(there))
            )
            differences = np.sum([apart for *_, apart in there] or np.zeros((1, size)), axis=0)
            self.dual = rho / (1.0 + 2.0 * self.age) * differences
        else:
            self.dual = self.dual + rho * arrived.apart(size)
        self.solve(arrived.last_sent[:size], rho * arrived.apart(size), 2.0 * rho * arrived.counts.sum(), samples)
        self.weigh(list(arrived.vectors), arrived.counts)

    def sum_at(self, time: int) -> Array:
        return self.own.get(time, self.base)

    def go_on_to(self, clock: int) -> None:
        """Go on to a round, all until then with the same weights."""
        first = self.sum_at(self.clock)
        for time in range(self.clock + 1, clock + 1):
            self.own[time] = first + (time - self.clock) * self.say()[: self.dual.size]
        self.clock = clock

    def compare(self, arrived: Arrived) -> None:
        """Compare sums with what is new, of the same rounds."""
        size, places = self.dual.size, np.flatnonzero(arrived.counts)
        clocks = {p: int(arrived.vectors[p, -2]) for p in places}
        new = [p for p in places if clocks[p] > (self.newest[p] or (0,))[0]]
        latest = max(new, key=lambda p: clocks[p], default=None)
        if latest is not None and clocks[latest] > self.clock:
            begins = not any(self.newest)
            self.go_on_to(clocks[latest])
            if begins:
                shift = arrived.vectors[latest, -2 - size : -2] - self.sum_at(self.clock)
                self.own = {time: each + shift for time, each in self.own.items()}
                self.base = self.base + shift
        for p in new:
            if self.clock - clocks[p] < self.kept:
                vector = arrived.vectors[p]
                apart = self.sum_at(clocks[p]) - vector[-2 - size : -2]
                self.newest[p] = clocks[p], vector[: len(self.say())], apart
        ages = [min(self.clock - entry[0], self.kept) for entry in self.newest if entry]
        largest = max([self.age, *ages, *(arrived.vectors[p, -1] for p in new)])
        self.age = next(2.0**k - 1.0 for k in range(64) if 2.0**k - 1.0 >= largest)


class Odkla(Admm):
    """One linearised step."""

    def solve(self, last_sent: Array, apart: Array, near: float, samples: Samples) -> None:
        pull = self.shaped(self.dual + apart)
        self.weights = self.weights - (samples.gradient(self.weights) + pull) / (near + 1.0 / samples.eta)


class Dkla(Admm):
    """Least squares on all samples so far."""

    def __init__(self, known: Known, forgetting: float = 1.0, every: int = 1, **keys: Any) -> None:
        super().__init__(known, **keys)
        self.sums = Sums.none(self.weights)
        self.forgetting, self.every = forgetting, every

    def receive(self, arrived: Arrived, samples: Samples) -> None:
        if self.every == 1 or arrived.counts.any():
            super().receive(arrived, samples)

    def see(self, samples: Samples) -> None:
        if len(samples.targets):
            self.sums = self.sums.scaled(self.forgetting).plus(Sums.of(samples))

    def solve(self, last_sent: Array, apart: Array, near: float, samples: Samples) -> None:
        share = 2.0 / max(self.sums.count, 1.0)
        right = share * self.sums.products + self.shaped(near * last_sent - apart - self.dual)
        self.weights = solved(share * self.sums.gram + np.diag(samples.lambdas + near), right)


class Domkl(Admm):
    """Online ADMM for each kernel, mixed by what the neighbourhood has lost; weights (E, L, C)."""

    def __init__(self, known: Known, rate: Any = "auto", forgetting: float = 0.999, **keys: Any) -> None:
        super().__init__(known, **keys)
        self.members, self.rate, self.forgetting = np.zeros_like(known.weights), rate, forgetting
        self.losses, self.count = np.zeros(len(known.weights)), 0.0
        self.logs = np.zeros(len(known.weights))

    def parts(self, samples: Samples) -> Array:
        """Return the features of each kernel, (E, n, L)."""
        return np.array(np.split(samples.features, len(self.members), axis=1))

    def see(self, samples: Samples) -> None:
        if not len(samples.targets):
            return
        left = self.forgetting ** len(samples.targets)
        errors = samples.targets - np.einsum("enl,elc->enc", self.parts(samples), self.members)
        self.losses = left * self.losses + (errors**2).sum(axis=(1, 2))
        self.count = left * self.count + len(samples.targets)
        speed = 0.5 * self.count / self.losses.min() if self.rate == "auto" else self.rate
        self.logs = -speed * (self.losses - self.losses.min())

    def say(self) -> Array:
        return np.concatenate([self.members.reshape(-1), self.logs])

    def solve(self, last_sent: Array, apart: Array, near: float, samples: Samples) -> None:
        z, inertia = self.parts(samples), 1.0 / samples.eta
        ridge = (inertia + near) * np.eye(z.shape[2])
        left = 2.0 / samples.batch_size * np.einsum("enl,enm->elm", z, z) + ridge
        right = 2.0 / samples.batch_size * np.einsum("enl,nc->elc", z, samples.targets)
        right += (inertia - samples.lambdas.reshape(len(z), -1, 1)) * self.members
        self.members = solved(left, right + self.shaped(near * last_sent - apart - self.dual))

    def weigh(self, vectors: Sequence[Array], counts: Array) -> None:
        kernels = len(self.logs)
        logs = self.logs + sum((c * v[-kernels:] for c, v in zip(counts, vectors, strict=True)), np.zeros(kernels))
        shares = np.exp(logs - logs.max())
        self.weights = (shares / shares.sum())[:, np.newaxis, np.newaxis] * self.members
