"""The contract of a protocol: a coupling that vanishes at agreement and draws together, and links that come and go."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from kernelswarm.agents.node.snapshot import leaves
from kernelswarm.protocols.contract import FLAGS, Pull, Rule
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.testing.networks import require_the_same_bits, small_network
from kernelswarm.simulations.testing.properties import (
    Array,
    checked,
    require,
    require_close,
    require_equal,
    require_shape,
    sealed,
)
from kernelswarm.simulations.testing.tolerances import neighborhood

BATCH, OUTPUTS, DEGREE = 3, 2, 3
SILENT = 1
"""The edge on which nothing is heard in some rounds."""
FORMS = {"form": ("one_sided", "symmetric"), "step": ("explicit", "implicit")}
LEARNER = {"name": "polk", "step_size": 0.1, "batch_size": 2, "kernel": {"name": "gaussian", "bandwidth": 0.4}}


def check_protocol(protocol: Rule, stream: object = "sine_regression") -> None:
    """Check that a protocol keeps its contract, ``protocols/contract.py``.

    The flags are there. Where neighbours talk: no coupling at agreement, a gradient that is linear in the node's own
    values with the slope ``curvature`` that it returns, at its own samples and, symmetric, at its neighbours'; a state
    of links that is made of arrays, numbers and tuples, and that ``advance`` leaves as it is; dual variables that are
    finite and not negative, and there where ``sends_duals``. On a small network of `polk` the same is learned, to the
    bit, agent by agent, compiled, in blocks, and gone on with.

    Parameters
    ----------
    protocol : Rule
        A frozen dataclass.
    stream : Stream, or what an experiment file says of one
        Data of the small network.

    Raises
    ------
    AssertionError
        A property does not hold; the text names it.
    InputError
        It is no protocol, or the network is refused.
    """
    with checked("protocol", protocol):
        for flag in FLAGS:
            require(hasattr(protocol, flag), protocol, f"a protocol declares {flag}")
        for flag, known in FORMS.items():
            found = getattr(protocol, flag)
            require(found in known, protocol, f"{flag} is {' or '.join(known)}, not {found!r}")
        if protocol.communicates:
            first = _ran(protocol)
            sentence = "the same rounds give the same links: what changes goes in and comes out as the state"
            require_equal(_ran(protocol), first, protocol, sentence)
        description = small_network(LEARNER, protocol, stream)
        if protocol.offline is None:
            require_the_same_bits(description, protocol)
        else:  # fitted after the last round
            found, again = (simulate(description).summary["digest"] for _ in range(2))
            require(found == again, protocol, "the same experiment gives the same functions")


def _ran(rule: Rule) -> list[Any]:
    """Take a node of three neighbours through rounds; returns its links as they were."""
    generator = np.random.default_rng(0)
    links = rule.init(neighborhood(BATCH))
    found: list[Any] = []
    for round in range(1, 20):
        _couples(rule, links, generator)
        before = copy.deepcopy(links)
        gaps = sealed(generator.exponential(size=DEGREE))
        excess = sealed(generator.normal(size=DEGREE)) if rule.compares_losses else None
        if round % 3 == 0:
            gaps, excess = _unheard(gaps), None if excess is None else _unheard(excess)
        following = rule.advance(links, gaps, excess, 0.1, round)
        if round % 3 == 0:
            for name, now, then in zip(
                ("tolerances", "duals"), rule.record(following, DEGREE), rule.record(links, DEGREE), strict=True
            ):
                sentence = f"the {name} of an edge whose gap is NaN, since nothing was heard on it, stay as they are"
                require_equal(now[SILENT], then[SILENT], rule, sentence)
        require_equal(
            list(leaves(links)), list(leaves(before)), rule, "advance leaves the links it is given as they are"
        )
        links = following
        _shows_its_links(rule, links)
        found.append([np.array(leaf) for leaf in leaves(links)])
    return found


def _unheard(numbers: Array) -> Array:
    """Return the numbers of a round in which nothing is heard on one edge."""
    numbers = numbers.copy()
    numbers[SILENT] = np.nan
    return sealed(numbers)


def _couples(rule: Rule, links: Any, generator: np.random.Generator) -> None:
    own = sealed(generator.normal(size=(BATCH, OUTPUTS)))
    agreed = sealed(np.tile(own, (DEGREE, 1, 1)))
    gradients, _ = rule.couple(links, own, agreed)
    require_close(
        gradients,
        np.zeros(agreed.shape),
        rule,
        "there is no coupling where neighbours agree",
        relative=0.0,
        absolute=1e-12,
    )
    answers = sealed(generator.normal(size=(DEGREE, BATCH, OUTPUTS)))
    _is_a_pull(rule, own, lambda values: rule.couple(links, values, answers), "couple", generator)
    if rule.form == "symmetric":
        theirs = sealed(generator.normal(size=(BATCH, OUTPUTS)))
        for place in range(DEGREE):
            dual = float(generator.exponential())
            gradients, _ = rule.couple_back(links, place, theirs, theirs, dual)
            sentence = "there is no coupling where a neighbour's own values are met"
            require_close(gradients, np.zeros(theirs.shape), rule, sentence, relative=0.0, absolute=1e-12)

            def back(values: Array, place: int = place, dual: float = dual) -> Pull:
                return rule.couple_back(links, place, values, theirs, dual)

            _is_a_pull(rule, own, back, "couple_back", generator)


def _is_a_pull(rule: Rule, own: Array, couple: Any, name: str, generator: np.random.Generator) -> None:
    gradients, curvatures = couple(own)
    pairs = (DEGREE, BATCH) if name == "couple" else (BATCH,)
    require_shape(gradients, (*pairs, OUTPUTS), rule, f"{name}'s gradients")
    require_shape(curvatures, pairs, rule, f"{name}'s curvatures")
    fine = (curvatures >= 0.0) & np.isfinite(curvatures)
    require(bool(fine.all()), rule, f"the curvatures of {name} are finite and not negative, not {curvatures.tolist()}")
    shift = generator.normal(size=own.shape)
    moved, same = couple(sealed(own + shift))
    stiffness = curvatures[..., np.newaxis]
    require_close(
        moved - gradients,
        stiffness * shift,
        rule,
        f"{name} is the gradient of a quadratic in the node's own values whose second derivatives are its curvatures",
        relative=1e-9,
        absolute=1e-9 * (1.0 + float(curvatures.max())),
    )
    require_close(same, curvatures, rule, "the curvatures are the same at all values", relative=1e-12)


def _shows_its_links(rule: Rule, links: Any) -> None:
    duals = rule.duals(links)
    require(duals is not None or not rule.sends_duals, rule, "a protocol that sends dual variables has them")
    if duals is not None:
        require_shape(duals, (DEGREE,), rule, "duals")
        fine = (duals >= 0.0) & np.isfinite(duals)
        require(bool(fine.all()), rule, f"dual variables are finite and not negative, not {duals.tolist()}")
    record = rule.record(links, DEGREE)
    for name, shown in zip(("tolerances", "duals"), record, strict=True):
        require_shape(shown, (DEGREE,), rule, f"record's {name}")
