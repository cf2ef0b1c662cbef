"""The refusal of one key of a part: it says which key, so that nobody has to find it in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class RefusedKey(ValueError):
    """A value that a part refuses for one of its keys; text and key are separate.

    On its own it reads ``rank = 0 must be at least 1``. Where the part stands in an experiment file the path of its
    table comes before the key: ``learner.rank = 0 must be at least 1``.

    Parameters
    ----------
    key : str
        The key as the part's table has it: ``rank``, or within a part of it, ``gamma.scale``.
    message : str
        What follows the key: the value, the rule and the remedy. Where the value is a part, only the rule and the
        remedy.
    part : object, optional
        The part that is the key's value, which Python writes otherwise than an experiment file.

    Examples
    --------
    >>> str(RefusedKey("rank", "= 0 must be at least 1: 5 to 50 are usual"))
    'rank = 0 must be at least 1: 5 to 50 are usual'
    """

    def __init__(self, key: str, message: str, part: object = None) -> None:
        super().__init__(key, message, part)
        self.key = key
        self.message = message
        self.part = part

    def __str__(self) -> str:
        return self.at("")

    def at(self, path: str, alone: str | None = None, written: Callable[[Any], str] = repr) -> str:
        """Return the refusal as a sentence about the table at ``path``, where the value of ``alone`` stands itself.

        ``written`` says how a part is written there.
        """
        where = path if self.key == alone else f"{path}.{self.key}" if path else self.key
        return f"{where} {self.message}" if self.part is None else f"{where} = {written(self.part)} {self.message}"
