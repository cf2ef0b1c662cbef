"""The border to code that is the user's own and is run before anything starts: a module imported, a class made."""

from pathlib import Path
from traceback import extract_tb
from types import TracebackType

from kernelswarm.simulations.core.errors import InputError


class OwnCode:
    """Inside this context whatever is raised, SystemExit among it, leaves as InputError; Ctrl-C does not.

    Parameters
    ----------
    what : str
        What the code is to do.
    refusals : exception types
        What else passes as it is, because its words are meant for the user.

    Examples
    --------
    >>> try:
    ...     with OwnCode("importing rules"):
    ...         raise SystemExit(0)
    ... except InputError as refusal:
    ...     print(str(refusal).partition(" (")[0])
    importing rules failed: it called sys.exit
    """

    def __init__(self, what: str, *refusals: type[Exception]) -> None:
        self._what = what
        self._refusals = refusals

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, (KeyboardInterrupt, InputError, *self._refusals)):
            return
        place = extract_tb(trace)[-1]
        text = "it called sys.exit" if isinstance(error, SystemExit) else " ".join(str(error).split())
        raise InputError(
            f"{self._what} failed: {text or 'it says nothing more'} ({type(error).__name__}, "
            f"{Path(place.filename).name}, line {place.lineno}): correct it; --debug shows the traceback"
        ) from error
