"""Messages of a block's nodes on non-ideal links and clocks, for points, vectors and mixture weights."""

from collections.abc import Mapping, Sequence

import numpy as np

from kernelswarm.agents.nodes.arrays import ABSENT, Counts, Flight, Links, Realized, VectorExchange, edges_at, ends_of
from kernelswarm.agents.nodes.filling import (
    MessageLayout,
    OnLinks,
    counts_of,
    mail_of,
    realization_of,
    terms_of,
)
from kernelswarm.agents.nodes.inbox import NO_ANSWER, coarse, stacked
from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.arrays import AnyArray, Array, Booleans, Integers
from kernelswarm.protocols.links.distortion import EXACT


class Messages:
    """Messages that may be late, changed or lost, their counts, and the realized links and clocks.

    Parameters
    ----------
    agents : sequence of OnLinks
        In sorted order of their labels.
    links : Links
        The nodes' edges.
    places : mapping of int to int
        The places of all nodes by label.
    layout : MessageLayout
        The contents of a message.
    counts : Counts, optional
        The counters of messages; by default new counters, which begin with the agents' counts.
    """

    def __init__(
        self,
        agents: Sequence[OnLinks],
        links: Links,
        places: Mapping[int, int],
        layout: MessageLayout,
        counts: Counts | None = None,
    ) -> None:
        self._agents, self._links, self._layout, labels = agents, links, layout, list(places)
        self.mail = mail_of(agents, links, places, layout)
        self.counts = counts_of(agents, links) if counts is None else counts
        self.terms = terms_of(agents, links, labels)
        self._realization = realization_of(agents, links, labels)

    def flight(self, now: int) -> Flight:
        """Return the messages sent in the round before ``now``, with room for the messages received next."""
        mail, edges = self.mail, len(self._links.other)
        slot = (now - 1) % len(mail.points)
        return Flight(
            mail.points[slot],
            mail.own[slot],
            mail.answers[slot],
            mail.own_row_sums[slot],
            mail.answer_row_sums[slot],
            mail.duals[slot, :edges],
            mail.duals[slot],
            mail.evaluated[slot],
            mail.sent[slot],
            mail.samples[slot],
            mail.previous[slot],
            mail.answered[slot],
            mail.answered_points[slot],
            mail.own_variances[slot],
            mail.answer_variances[slot],
        )

    def happens(self, now: int) -> tuple[Realized, int]:
        """Return the realized links and clocks of some rounds, and the index of round ``now`` among them. Priming is
        ideal, and without messages unless the protocol sends in every round."""
        known = self._realization
        if now < PRIMING:
            awake = np.ones((len(known.awake), PRIMING), dtype=np.bool_)
            active = np.full((len(known.deliveries), PRIMING), known.every == 1)
            return Realized(awake, np.zeros(active.shape, dtype=np.int64), active, -PRIMING), now
        place = known.look(now - PRIMING)  # may draw more rounds
        return Realized(known.awake, known.deliveries, known.active, known.first), place

    def rounds(self, now: int, most: int) -> tuple[Realized, int]:
        """Return the realized links and clocks from round ``now`` on, and the number of these rounds, at most
        ``most``."""
        happens, place = self.happens(now)
        return happens, min(most, happens.awake.shape[1] - place)

    def send_again(self, now: int, sends: Booleans, vectors: Array, asked: Booleans) -> None:
        """Put the vectors (V, n) sent in the previous round into its slot, for nodes with ``sends`` (V,) and edges with
        ``asked`` (E,)."""
        if not now:
            return
        mail, slot, (realized, place) = self.mail, (now - 1) % len(self.mail.points), self.happens(now - 1)
        mail.points[slot, : len(sends), 0][sends] = vectors[sends]
        mail.previous[slot, : len(sends)][sends] = NO_ANSWER
        there = sends[ends_of(self._links)] & realized.active[:, place] & asked
        mail.answered[slot, self._links.reverse[there]] = NO_ANSWER
        mail.deliveries[slot] = realized.deliveries[:, place]

    def returning(self, now: int, sent_at: Integers, begun: Integers) -> Integers:
        """Return the nodes that wake in this round after sleep in the previous one, and are not yet reset for it."""
        happens, place = self.happens(now)
        return np.flatnonzero(happens.awake[:, place] & (sent_at != now - 1) & (begun != now))

    def forget(self, i: int, now: int) -> None:
        """Drop the messages that arrived at node i before this round."""
        due = self.mail.due[:, edges_at(self._links, i)]
        due[due < now] = ABSENT

    def hand_back(self, now: int) -> None:
        """Store the messages that are kept before this round in the nodes' inboxes."""
        start = self._links.start.tolist()
        for agent, begin, end in zip(self._agents, start, start[1:], strict=False):
            agent.inbox.arrays = self._arrays_of(begin, end, now)

    def _arrays_of(self, begin: int, end: int, now: int) -> dict[str, AnyArray]:
        """Return the messages kept on some edges before a round, in order of the rounds in which they were sent.

        A head consists of the edge, the rounds in which the message was sent and arrives, the round in which its points
        were drawn, the round of the sender's previous message, and the round of the answered points.
        """
        mail, layout, other, reach = self.mail, self._layout, self._links.other, self.terms.reach
        heads: list[tuple[int, ...]] = []
        active: list[tuple[bool, bool]] = []
        points, own, answers = list[Array](), list[Array](), list[Array]()
        duals = np.zeros(0)
        sent = range(max(0, now - 1 - reach), now - 1)
        for e, at in ((e, at) for e in range(begin, end) for at in sent):
            slot, sender = at % len(mail.points), int(other[e])
            if mail.due[slot, e] == ABSENT:
                continue
            evaluated, back = slice(int(mail.evaluated[slot, sender])), self._links.reverse[e]
            carried, previous, answered = mail.carried[slot, e], mail.previous[slot, sender], mail.answered[slot, e]
            heads.append((e - begin, at, mail.due[slot, e], carried, previous, answered))
            active.append((layout.symmetric and previous >= 0, answered >= 0))
            there = mail.points[slot, sender, : mail.sent[slot, sender]]
            points.append(mail.before[slot, sender, evaluated] if carried == previous else there)
            if active[-1][0]:
                own.append(self._values((slot, sender, evaluated), mail.own, mail.own_row_sums, mail.own_variances))
            if active[-1][1]:
                those = slot, e, slice(int(mail.answered_points[slot, e]))
                answers.append(self._values(those, mail.answers, mail.answer_row_sums, mail.answer_variances))
            duals = np.append(duals, mail.duals[slot, back] if layout.sends_duals else 0.0)
        latest = [mail.latest[j, : mail.latest_sent[j]] for j in other[begin:end] if layout.symmetric]
        arrays: dict[str, AnyArray] = {
            "inbox.heads": np.array(heads, dtype=np.int64).reshape(-1, 6),
            "inbox.last": mail.last[begin:end].copy(),
            "inbox.known": np.full(end - begin, layout.symmetric),
            "inbox.there": np.array(active, dtype=np.bool_).reshape(-1, 2),
            "inbox.duals": duals if self.terms.bits == EXACT else coarse(duals),
        }
        arrays |= stacked("inbox.latest", latest) | stacked("inbox.points", points)
        return arrays | stacked("inbox.own", own) | stacked("inbox.answers", answers)

    def _values(self, there: tuple[int, int, slice], values: Array, *behind: Array) -> Array:
        """Return a message's values, followed by row sums and variances if they are sent."""
        columns = [part[there] for part in behind[: int(self._layout.limited) + int(self._layout.certain)]]
        return np.column_stack([values[there], *columns])

    def exchange(
        self, sent_at: Integers, quiet: Booleans, used: Integers, everywhere: bool, message: float
    ) -> VectorExchange:
        """Return the arguments of rounds in which vectors are sent."""
        agents = self._agents
        return VectorExchange(
            mail=self.mail,
            counts=self.counts,
            terms=self.terms,
            sent_at=sent_at,
            begun=np.full(len(agents), ABSENT),
            quiet=quiet,
            used=used,
            asks=np.concatenate([agent.inbox.asks for agent in agents]),
            asked=np.concatenate([agent.inbox.asked for agent in agents]),
            everywhere=everywhere,
            message=message,
        )
