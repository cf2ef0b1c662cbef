"""Shortcuts through what numba does while it compiles, to the same code.

A sixth of the processor time of compiling went into looking up again what had been found before:

- For each call, of an addition too, numba asks one candidate after another, dozens of them, whether it takes such
  arguments. Here an answer is kept, for arguments of the same types under the same options.
- By each such candidate, two sets of options are compared by making dictionaries of all of them. Here those that were
  set are compared, and the defaults only of what just one of the two has set.
- After each of a dozen passes over a function numba works out where each variable ends, and which are alive at the
  start of each block. The former is asked for by the last pass, the latter by generators. Here it is worked out when it
  is asked for.

All of it is in force only while a function of ours is compiled (docs/decisions/0030).
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from numba.core import postproc, targetconfig, transforms, types

_types: Any = types
_passes: Any = postproc
_configurations: Any = targetconfig
_transforms: Any = transforms


class Answer(NamedTuple):
    """Which candidate takes a call, and what it makes of the arguments.

    Attributes
    ----------
    signature : numba signature
        The types of the result and of the arguments.
    implementation : object
        By which numba finds the code.
    """

    signature: Any
    implementation: Any


def _remembered(find: Callable[..., Any]) -> Callable[..., Any]:
    answers: dict[tuple[Any, ...], Answer] = {}

    def get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws or type(function) is not _types.Function:  # methods, and what is called by keywords, are few
            return find(function, context, args, kws)
        options = _configurations.ConfigStack.top_or_none()
        case = (function, context, tuple(args), options)
        answer = answers.get(case)
        if answer is None:
            signature = find(function, context, args, kws)
            answer = Answer(signature, function._impl_keys[signature.args])
            answers[*case[:-1], options and options.copy()] = answer  # those on the stack are changed as it goes on
        # Candidates that make the same of their arguments take turns in this table, the one asked last in front.
        function._impl_keys[answer.signature.args] = answer.implementation
        return answer.signature

    return get_call_type


@functools.cache
def _hash_of_names(kind: Any) -> int:
    return hash(tuple(sorted(kind.options)))


def _hash_of_options(options: Any) -> int:
    kind: Any = type(options)
    return _hash_of_names(kind)  # of their names alone, as by numba


def _equal_options(one: Any, other: Any) -> Any:
    if not isinstance(other, _configurations.TargetConfig):
        return NotImplemented
    if one.options is not other.options and one.options.keys() != other.options.keys():
        return False
    if one._values == other._values:
        return True
    return all(getattr(one, name) == getattr(other, name) for name in one._values.keys() | other._values.keys())


def _blocks_in_order(process: Callable[..., None]) -> Callable[..., None]:
    def run(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        code = processor.func_ir
        if code.is_generator:
            process(processor, emit_dels, extend_lifetimes)
            return
        code.blocks = _transforms.canonicalize_cfg(code.blocks)
        code.variable_lifetime = _passes.VariableLifetime(code.blocks)  # works out what it is asked for
        code.generator_info = None
        if emit_dels:
            processor._insert_var_dels(extend_lifetimes=extend_lifetimes)

    return run


def _shortcuts() -> list[tuple[type, str, Callable[..., Any]]]:
    """Return the methods of numba that are replaced, with what replaces them."""
    calls, processor, options = _types.BaseFunction, _passes.PostProcessor, _configurations.TargetConfig
    return [
        (calls, "get_call_type", _remembered(calls.get_call_type)),
        (processor, "run", _blocks_in_order(processor.run)),
        (options, "__eq__", _equal_options),
        (options, "__hash__", _hash_of_options),
    ]


_SHORTCUTS = _shortcuts()
_taken: list[tuple[type, str, Any]] = []


@contextmanager
def shortcuts() -> Iterator[None]:
    """Take the shortcuts in here, where only one thread at a time may be; inside another such block nothing is done."""
    if _taken:
        yield
        return
    try:
        for kind, name, short in _SHORTCUTS:
            _taken.append((kind, name, vars(kind)[name]))
            setattr(kind, name, short)
        yield
    finally:
        while _taken:
            kind, name, usual = _taken.pop()
            setattr(kind, name, usual)
