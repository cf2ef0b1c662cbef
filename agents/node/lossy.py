"""A node whose neighbours are heard late, in part, or not at all, and which may sleep."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Evaluated, Info, parted_at, together
from kernelswarm.agents.learners.descent import share
from kernelswarm.agents.node.agent import NOTHING, Agent, columns_behind_values
from kernelswarm.agents.node.inbox import NO_ANSWER, SILENT, Inbox
from kernelswarm.agents.node.node import PRIMING, Outgoing
from kernelswarm.agents.node.pairs import Known, LastSent, Pairs, recalled, received_pairs, remembered
from kernelswarm.agents.node.terms import NO_PULLS, OwnPulls, Taught, Terms, own_pulls
from kernelswarm.agents.node.traffic import count_sent
from kernelswarm.protocols.clocks.presence import forgets
from kernelswarm.protocols.contract import Neighborhood, Pull
from kernelswarm.protocols.coupling import mean_constraint_values, total
from kernelswarm.protocols.limits import clip_pulls, pair_row_sums_in
from kernelswarm.protocols.unreliable.realization import Conditions

Array = npt.NDArray[np.float64]


class LossyAgent(Agent):
    """A node on links and by a clock that are not ideal.

    It is the :class:`Agent` as long as every message arrives in time. Where one does not, its edge takes no part in the
    round's step (or what was heard last takes it once more); what arrives late couples the two functions at the points
    that it is about, where the node evaluates its present function. A node that is not awake does nothing: it draws no
    sample, and its neighbours hear nothing.

    Parameters
    ----------
    neighborhood, slots, learner, rule, source, inputs, outputs
        As of :class:`Agent`.
    conditions : Conditions
        Links and clock.
    """

    def __init__(self, neighborhood: Neighborhood, *parts: Any, conditions: Conditions) -> None:
        super().__init__(neighborhood, *parts)
        degree = len(self.neighbors)
        self.conditions = conditions
        self._neighborhood, self._forgets = neighborhood, forgets(conditions.clock)
        self.inbox = Inbox(conditions, neighborhood, self.neighbors, self.outputs, self._symmetric)
        self.now = 0
        """The round of the network that comes next, those included that prime it."""
        self.drawn: dict[int, tuple[Array, Array]] = {}
        """The node's own samples by the round in which it sent their points."""
        self.predicted: dict[int, Array] = {}
        """What its function said there before it learned from them, by the same rounds."""
        self.sent_at = NO_ANSWER, NO_ANSWER
        """The rounds in which it sent the points that it learns from next, and those that follow."""
        self.received_at = np.full(degree, NO_ANSWER)
        """The rounds in which the neighbours' points were drawn that it has evaluated."""
        self.used = np.full((degree, 2), NO_ANSWER)
        """The rounds of the last messages whose answers, and whose own values, it has learned from."""
        self.last_sent: list[LastSent | None] = [None] * degree
        self.quiet = np.zeros(degree, dtype=np.bool_)
        self.tally.traffic = np.zeros((degree, 4), dtype=np.int64)
        self._links, self._trigger = conditions.links, conditions.links.trigger
        self.without_points = False
        """Whether its points travel in the message of another copy of the learner."""
        self.asks = neighborhood.asks[:degree] or (True,) * degree
        self.asked = neighborhood.asked[:degree] or (True,) * degree

    def advance(self, incoming: Sequence[Outgoing]) -> Outgoing:
        """Live through one round with what the neighbours sent, and return what this node sends; raises as Agent."""
        now = self.now
        self.now += 1
        awake = self.inbox.awake(now - PRIMING)
        self.come_back(now, awake)
        traffic = self.tally.traffic
        assert traffic is not None
        for e, (message, slot) in enumerate(zip(incoming, self.slots, strict=bool(incoming))):
            self.inbox.take(e, message, slot, now, traffic[e])
        self.inbox.deliver(now, awake, traffic)
        if not awake:
            return self.outgoing()
        if self.targets is not None:
            self._learn(now)
        before = self.received_at.copy()
        if self.following is not None:
            points, self.targets = self.following
            self.evaluate(points, self._received_points(now))
            assert self.own is not None
            self.predicted[self.sent_at[1]] = self.own.values
        new = np.flatnonzero(self.received_at != before).tolist()
        self.following = self.draw([self.theirs[e].points for e in new])
        oldest = now - self.inbox.memory
        self.drawn = {at: entry for at, entry in self.drawn.items() if at >= oldest} | {now: self.following}
        self.predicted = {at: entry for at, entry in self.predicted.items() if at >= oldest}
        self.sent_at = self.sent_at[1], now
        self._listen_to_itself(now)
        sent = self.outgoing()
        self._count_sent(sent)
        return sent

    def outgoing(self) -> Outgoing:
        """Return what the node sends, on the edges on which it sends."""
        sent = super().outgoing()
        stamps = np.full(1 + len(self.neighbors), float(SILENT))
        learning, following = self.sent_at
        if following == self.now - 1:
            stamps[0] = learning
            stamps[1:] = np.where(self.quiet, SILENT, self.received_at)
            stamps[1:][~self.inbox.active(following - PRIMING)] = SILENT
        sent.stamps = stamps
        return sent

    def released(self, points: Array) -> Array:
        """Return points of samples with the noise with which they are sent in this round."""
        return self.inbox.released(points, self.now - 1)

    def come_back(self, now: int, awake: bool) -> None:
        """Begin anew, with the samples not learned from yet, where the node wakes without memory: once a round."""
        if not (awake and self._forgets) or self.sent_at[1] == now - 1:
            return
        assert self.own is not None
        self.begin_anew()
        self.inbox.forget(now)
        self.drawn = {at: entry for at, entry in self.drawn.items() if at in self.sent_at}
        self.last_sent, self.quiet[:] = [None] * len(self.neighbors), False
        self.evaluate(self.own.points, [evaluation.points for evaluation in self.theirs])
        self.predicted = {at: self.own.values for at in self.drawn if at == self.sent_at[0]}

    def begin_anew(self) -> None:
        """Put the learner and the links where they were before the first round."""
        self.state, self.links = self.learner.init(self.width, self.outputs), self.rule.init(self._neighborhood)
        self.bound_noise()
        if self.buffer is not None:
            self.buffer.forget()

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the node has heard and said, and the rounds to which its samples belong."""
        tally = self.tally
        assert tally.traffic is not None
        arrays: dict[str, npt.NDArray[Any]] = {
            "weather.now": np.array([self.now, *self.sent_at]),
            "weather.heard_at": self.received_at.copy(),
            "weather.used": self.used.copy(),
            "weather.quiet": self.quiet.copy(),
            "weather.traffic": tally.traffic.copy(),
        }
        arrays |= remembered(self.drawn, self.predicted, self.last_sent) | self.inbox.arrays()
        return arrays | super().further_arrays()

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what :meth:`further_arrays` returned."""
        self.now, *sent_at = arrays["weather.now"].tolist()
        self.sent_at = sent_at[0], sent_at[1]
        self.received_at, self.used = arrays["weather.heard_at"].copy(), arrays["weather.used"].copy()
        self.quiet = arrays["weather.quiet"].copy()
        self.tally.traffic = arrays["weather.traffic"].copy()
        self.drawn, self.predicted, self.last_sent = recalled(arrays, len(self.neighbors))
        self.inbox.take_over(arrays)
        super().take_further(arrays)

    def _received_points(self, now: int) -> list[Array]:
        """Return the newest points of each neighbour that have arrived."""
        found: list[Array] = []
        for e in range(len(self.neighbors)):
            newest = self.inbox.newest(e, now)
            if newest is not None:
                self.received_at[e] = newest.carried
                found.append(newest.points)
            else:
                found.append(self.theirs[e].points)
        return found

    def _listen_to_itself(self, now: int) -> None:
        """Find the edges on which there is nothing new to say."""
        if not self._trigger.threshold:
            return
        threshold = self._trigger.at(max(0, now - PRIMING))
        there = self.inbox.active(now - PRIMING)
        for e, evaluation in enumerate(self.theirs):
            last = self.last_sent[e]
            moved = np.inf
            if last is not None and len(last.points) and now >= PRIMING:
                moved = float(np.max(np.abs(self.learner.evaluate(self.state, last.points).values - last.values)))
            self.quiet[e] = moved <= threshold
            if there[e] and not self.quiet[e]:
                self.last_sent[e] = LastSent(evaluation.points, evaluation.values)

    def _count_sent(self, sent: Outgoing) -> None:
        """Count what was sent, once the network is primed."""
        if self.now <= PRIMING:
            return
        asks = (False,) * len(self.asks) if self.without_points else self.asks
        sets = self.own if self._symmetric else None, self.theirs
        edges, behind = (self.asks, asks, self.asked), columns_behind_values(self.rule)
        count_sent(self.tally, sent, sets, behind, edges, self._links.bits)

    def _learn(self, now: int) -> None:
        """Take the step on the samples evaluated, with what there is to hear."""
        own, targets = self.own, self.targets
        assert own is not None and targets is not None
        learner, rule, tally = self.learner, self.rule, self.tally
        size, degree = len(targets), len(self.neighbors)
        part, eta = share(size, learner.batch_size), learner.eta(self.state)
        rate, count = eta / learner.batch_size, len(own.points)
        samples, replayed = parted_at(own, size)
        if size:
            self.admit(samples.values, targets)
        answered = [self._answered(e, now, own) if count and self.asks[e] else None for e in range(degree)]
        backward = [self._backward(e, now) if self._symmetric and self.asked[e] else None for e in range(degree)]
        late = [(e, pairs) for e, pairs in enumerate(answered) if pairs is not None and pairs.evaluation is not own]
        sets = [own] if count else []
        sets += [pairs.evaluation for pairs in backward if pairs is not None]
        sets += [pairs.evaluation for _, pairs in late]
        known = self._known_of(sets, answered, backward, len(late))
        terms, pulls, taken = Terms(), NO_PULLS, 1.0
        taught, taught_late = Taught(self._certainty, self.outputs), Taught(self._certainty, self.outputs)
        constraints, excess_loss = np.full(degree, np.nan), np.full(degree, np.nan)
        held: list[tuple[Array, float]] = []  # the pulls at late points, and their limits
        if degree and count:
            pulls, held = self._pulled(own, answered, late, known, rate, (taught, taught_late))
        if size:
            gradient = learner.gradient(self.state, samples, targets)
            curvature = self._bounded_curvature
            if degree:
                taken = self.damping(rate, pulls.samples[0])
                if self._implicit and not learner.linear:
                    curvature += pulls.samples[1]
                gradient = gradient + pulls.pulling[:size] / taken
                self._compare(own, targets, answered, constraints, excess_loss)
            terms.add(samples, gradient, curvature, part)
        if replayed is not None:
            self.add_replayed(terms, replayed, pulls, rate, taken)
        self._add_backward(terms, backward, known.at(count), eta, taken, taught)
        taught.follow(taught_late)
        for (_, pairs), (pull, limited) in zip(late, held, strict=True):
            weight = len(pull) / learner.batch_size
            terms.add(pairs.evaluation, pull, 0.0 if learner.linear else limited, weight, taken)
        if terms.evaluations:
            curvatures = terms.curvatures if self._implicit else None
            given = self.state, terms.evaluations, terms.gradients, curvatures, targets, eta * taken
            info: Info = learner.step(*given, *taught.together())
            tally.compression_error += info.compression_error
        tally.rounds += 1
        self.round += 1
        if size and degree:
            self._advance_links(constraints, excess_loss if rule.compares_losses else None, eta * part)

    def _add_backward(
        self, terms: Terms, backward: Sequence[Pairs | None], known: Known, eta: float, taken: float, taught: Taught
    ) -> None:
        """Add the terms of the neighbours' points, with what is ``known`` from there on."""
        before = 0
        for e, pairs in enumerate(backward):
            if pairs is None:
                continue
            count, batch_size = len(pairs.evaluation.points), self.batch_sizes[e]
            dual = self.inbox.packets[e][int(self.used[e, 1])].dual
            mine = pairs.evaluation.values
            pull, stiff = self.rule.coupling_gradient_at_neighbor(self.links, e, mine, pairs.theirs, dual)
            pull, both = np.array(pull), np.zeros(count)
            damped = self._links.damped(pairs.age)
            if damped != 1.0:
                pull, stiff = pull * damped, stiff * damped
            here = known.at(before, before + count)
            if self._limited:
                both = here.row_sums + pairs.row_sums
            if self._certainty:
                stiff = np.array(stiff)
                taught.add_one(here.variances, pairs.variances, mine, pairs.theirs, pull, stiff, batch_size)
            stiffness, limited = clip_pulls(pull, stiff, both, batch_size)
            if not self._implicit:
                self.check_stability(eta / batch_size, stiffness)
            terms.add(pairs.evaluation, pull, 0.0 if self.learner.linear else limited, count / batch_size, taken)
            before += count

    def _answered(self, e: int, now: int, own: Evaluated) -> Pairs | None:
        """Return the pairs at the node's own samples that a neighbour answered; None where there is nothing to use."""
        for sent, packet in self.inbox.usable(e, now):
            known = packet.answered in self.drawn and packet.answered >= now - self.inbox.memory
            if packet.answer is None or not known:
                continue
            if sent == self.used[e, 0] and self.conditions.links.on_missing == "skip":
                return None
            fresh = packet.answered == self.sent_at[0]
            evaluation = own if fresh else self.learner.evaluate(self.state, self.drawn[packet.answered][0])
            if len(packet.answer) != len(evaluation.points) or not len(packet.answer):
                continue
            self.used[e, 0] = sent
            return received_pairs(evaluation, packet.answer, now - 1 - sent, self.outputs)
        return None

    def _backward(self, e: int, now: int) -> Pairs | None:
        """Return the pairs at a neighbour's samples; None where there is nothing to use."""
        for sent, packet in self.inbox.usable(e, now):
            before = self.inbox.before(e, packet, now)
            if packet.own is None or before is None:
                continue
            if sent == self.used[e, 1] and self.conditions.links.on_missing == "skip":
                return None
            known = self.theirs[e]
            if packet.previous != self.received_at[e]:
                known = self.learner.evaluate(self.state, before.points)
            if len(packet.own) != len(known.points) or not len(packet.own):
                continue
            self.used[e, 1] = sent
            return received_pairs(known, packet.own, now - 1 - sent, self.outputs)
        return None

    def _known_of(
        self, sets: Sequence[Evaluated], answered: Sequence[Pairs | None], backward: Sequence[Pairs | None], late: int
    ) -> Known:
        """Return what the node knows of the pairs of a round: what was sent, where all is heard that was expected."""
        if not self._limited or not sets:
            return Known(np.zeros(sum(len(entry.points) for entry in sets)), NOTHING)
        whole = all(pairs is not None for pairs in answered)
        if self._symmetric:
            known = zip(backward, self.theirs, strict=True)
            whole = whole and all(pairs is not None and pairs.evaluation is expected for pairs, expected in known)
        if whole and not late:
            return Known(self.row_sums, self.variances)
        fresh = sum(pairs is not None for pairs in answered) - late
        stepped = together(sets)
        row_sums = np.empty(len(stepped.points))
        gram = self.learner.inner(self.state, stepped)
        own = len(sets[0].points) if sets[0] is self.own else 0
        pair_row_sums_in(gram, own, fresh, self.learner.eta(self.state), row_sums)
        return Known(row_sums, self.variances_of(gram) if self._certainty else NOTHING)

    def _pulled(
        self,
        own: Evaluated,
        answered: Sequence[Pairs | None],
        late: Sequence[tuple[int, Pairs]],
        known: Known,
        rate: float,
        taught: tuple[Taught, Taught],
    ) -> tuple[OwnPulls, list[tuple[Array, float]]]:
        """Return the pulls at the node's points, and those at late points with what is taken of their curvatures; note
        what is taught at the former, and at the latter."""
        rule, count, degree, batch_size = self.rule, len(own.points), len(answered), self.learner.batch_size
        assert self.targets is not None
        answers, both = np.stack([own.values] * degree), np.zeros((degree, count))
        fresh = [(e, pairs) for e, pairs in enumerate(answered) if pairs is not None and pairs.evaluation is own]
        for e, pairs in fresh:
            answers[e] = pairs.theirs
            if self._limited:
                both[e] = known.row_sums[:count] + (pairs.row_sums if self._symmetric else known.row_sums[:count])
        pull, stiff = (np.array(part) for part in rule.coupling_gradient(self.links, own.values, answers))
        received = np.zeros(degree, dtype=np.bool_)
        for e, pairs in fresh:
            received[e] = True
            damped = self._links.damped(pairs.age)
            if damped != 1.0:
                pull[e], stiff[e] = pull[e] * damped, stiff[e] * damped
        pull[~received], stiff[~received] = 0.0, 0.0
        if self._certainty:
            heard, size = [(e, pairs.variances) for e, pairs in fresh], len(self.targets)
            taught[0].add_own(known.variances[:count], heard, own.values, answers, pull, stiff, size, batch_size)
        pulls = own_pulls(Pull(pull, stiff), both, len(self.targets), batch_size)
        held: list[tuple[Array, float]] = []
        begin, summed = len(known.row_sums) - sum(len(pairs.theirs) for _, pairs in late), pulls.samples[0]
        for e, pairs in late:
            values, size, damped = pairs.evaluation.values, len(pairs.theirs), self._links.damped(pairs.age)
            there = np.stack([values] * degree)
            there[e] = pairs.theirs
            far, bound = rule.coupling_gradient(self.links, values, there)
            pulled, bounds = far[e] * damped, bound[e] * damped
            mine, variances = known.at(begin, begin + size)
            if self._certainty:
                taught[1].add_one(variances, pairs.variances, values, pairs.theirs, pulled, bounds, batch_size)
            begin += size
            both_ends = mine + (pairs.row_sums if self._symmetric else mine) if self._limited else np.zeros(size)
            strength, limited = clip_pulls(pulled, bounds, both_ends, batch_size)
            if not self._implicit:
                self.check_stability(rate, strength)
            summed += strength
            held.append((pulled, limited))
        return pulls._replace(samples=(summed, pulls.samples[1])), held

    def _compare(
        self, own: Evaluated, targets: Array, answered: Sequence[Pairs | None], constraints: Array, excess_loss: Array
    ) -> None:
        """Fill in what is heard of each edge: the mean constraint value, and the neighbour's mean excess loss."""
        loss = self.learner.loss
        for e, pairs in enumerate(answered):
            if pairs is None:
                continue
            values, there, before = pairs.evaluation.values, targets, pairs.evaluation.values
            if pairs.evaluation is not own:
                # Fresh samples decide who predicts better: the node has learned from these since, and its neighbour
                # has not.
                at = self.inbox.packets[e][int(self.used[e, 0])].answered
                there, before = self.drawn[at][1], self.predicted.get(at, values)
            size = len(there)  # of the points the samples: what is replayed has no targets
            if not size:
                continue
            constraints[e] = mean_constraint_values(self.rule, values, pairs.theirs[np.newaxis])[0]
            if self.rule.compares_losses and self.sees_new:
                theirs = total(loss.values(pairs.theirs[:size], there))
                excess_loss[e] = (theirs - total(loss.values(before[:size], there))) / size
