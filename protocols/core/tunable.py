"""Which keys decide how well a part learns, so that each row of a comparison is given values of its own for them."""

from typing import Any, Protocol, runtime_checkable

from kernelswarm.protocols.core.fulfilling import fulfils


@runtime_checkable
class Tunable(Protocol):
    """A learner or a protocol with keys that its error depends on, to be tuned for each row of a comparison."""

    @property
    def tuned_by(self) -> tuple[str, ...]:
        """The keys: positive numbers, or schedules and tolerances that hold one."""
        ...


@runtime_checkable
class DeclaresSteps(Protocol):
    """A protocol that declares whether nodes learn by their learner's steps."""

    @property
    def takes_steps(self) -> bool:
        """Whether they do; False where the protocol solves for the weights."""
        ...


def tuned_by(part: object) -> tuple[str, ...] | None:
    """Return the keys that a part is tuned by; None without a declaration.

    Examples
    --------
    >>> from kernelswarm.protocols.consensus import Consensus
    >>> from kernelswarm.protocols.isolated import Isolated
    >>> tuned_by(Consensus()), tuned_by(Isolated())
    (('penalty',), None)
    """
    return tuple(part.tuned_by) if fulfils(part, Tunable) else None


def takes_steps(rule: Any) -> bool:
    """Tell whether nodes learn by their learner's steps, which is the default of protocols.

    Examples
    --------
    >>> from kernelswarm.protocols.parameters.diffusion import Diffusion
    >>> from kernelswarm.protocols.parameters.dkla import Dkla
    >>> takes_steps(Diffusion()), takes_steps(Dkla())
    (True, False)
    """
    return bool(rule.takes_steps) if fulfils(rule, DeclaresSteps) else True
