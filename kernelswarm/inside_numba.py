"""The names of numba in use that are no public interface, each looked for first: a new version may not have it.

Where one is missing that saves time, numba's own way is taken. Where nothing could be compiled without it, nothing is:
Python computes the same, many times slower. Either is warned of once (docs/decisions/0045).
"""

import importlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numba
from llvmlite import binding
from numba.core import config, types

if TYPE_CHECKING:
    from numba.core.typing.templates import Signature as Signature
else:
    Signature = type(types.void())

_llvm: Any = binding

NEEDED = {
    "core.registry": [
        "CPUDispatcher.compile",
        "CPUDispatcher.add_overload",
        "CPUDispatcher.enable_caching",
        "CPUDispatcher.disable_compile",
    ],
    "core.base": ["BaseContext.make_array", "BaseContext.populate_array"],
    "core.cpu": ["CPUContext.call_conv"],
    "core.callconv": [
        "CPUCallConv.get_function_type",
        "CPUCallConv.call_function",
        "CPUCallConv.return_status_propagate",
    ],
    "core.codegen": ["JITCodeLibrary.get_pointer_to_function"],
    "core.funcdesc": ["FunctionDescriptor.llvm_func_name"],
    "_helperlib": ["c_helpers"],
}
"""Names without which nothing is compiled: in modules of numba's, with dots where a class holds them."""

ROUTINES = "xxgemm", "xgesv", "ez_xxxevd", "xxpotrf"
"""Numba's entries to BLAS and LAPACK that compiled code calls, with ``numba_`` in front."""


def _found(module: str, path: str) -> Any:
    """Return the object of a name in one of numba's modules, or None if it is missing."""
    try:
        value: Any = importlib.import_module(f"numba.{module}")
    except ImportError:
        return None
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


@cache
def _say(missing: str, instead: str) -> None:
    warnings.warn(
        f"numba {numba.__version__} has no {missing}, which kernelswarm knows of older versions: {instead}. "
        "constraints.txt of kernelswarm names a version that has it",
        RuntimeWarning,
        stacklevel=2,
    )


def _compiles() -> bool:
    """Return whether functions are compiled: where that is not switched off, and all is there that it takes."""
    if vars(config)["DISABLE_JIT"]:
        return False
    missing = [
        path.rpartition(".")[2] for module, paths in NEEDED.items() for path in paths if _found(module, path) is None
    ]
    helpers = _found("_helperlib", "c_helpers") or {}
    missing += [name for name in ROUTINES if name not in helpers]
    if missing:
        _say(" and no ".join(missing), "nothing is compiled, and runs take many times as long")
    return not missing


COMPILES = _compiles()
"""Whether functions are compiled; otherwise they run as plain Python."""

NumbaDispatcher: Any = _found("core.registry", "CPUDispatcher") or object
"""The class of numba's compiled functions."""


def known_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a compiled function that this numba knows; ``_nrt`` False counts no references."""
    known: Any = getattr(getattr(NumbaDispatcher, "targetdescr", None), "options", None)
    unknown = [name for name in options if not hasattr(known, name)]
    for name in unknown:
        _say(f"option {name}", "functions are compiled without it, which takes longer")
    return {name: value for name, value in options.items() if name not in unknown}


def finds(dispatcher: Any, kinds: Sequence[Any], entry: Any) -> bool:
    """Let Python's calls with arguments of some types run ``entry``; False where each will go through numba."""
    if not (hasattr(dispatcher, "_insert") and all(hasattr(kind, "_code") for kind in kinds)):
        _say("_insert or _code", "functions are compiled again for arrays of another kind")
        return False
    dispatcher._insert([kind._code for kind in kinds], entry, False)
    return True


def place_of(result: Any) -> int:
    """Return the address of a function's machine code."""
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def call_at(context: Any, builder: Any, pointer: Any, signature: Any, values: Sequence[Any]) -> Any:
    """Emit the call of a compiled function at an address, with the code that hands on its errors.

    The signature is that of the call: in front of the arguments stands the type of the pointer.
    """
    kinds, convention = signature.args[1:], context.call_conv
    function = builder.bitcast(pointer, convention.get_function_type(signature.return_type, kinds).as_pointer())
    status, found = convention.call_function(builder, function, signature.return_type, kinds, values)
    with builder.if_then(status.is_error, likely=False):
        convention.return_status_propagate(builder, status)
    return found


@contextmanager
def optimised(long: bool) -> Iterator[None]:
    """Within this context, and in this thread alone, compile without unrolled loops, and without vector instructions
    unless loops are ``long``. Has no effect if this numba chooses its passes in another way."""
    lock = _found("core.compiler_lock", "global_compiler_lock")
    if lock is None:
        _say("global_compiler_lock", AS_NUMBA)
        yield
        return
    with lock:  # other threads wait before they compile
        if not _passes_are_chosen():
            yield
            return
        with _chosen_passes(_codegen(), long):
            yield


AS_NUMBA = "functions are optimised as numba does it, which takes longer for code that is slower"


def _codegen() -> Any:
    return _found("core.registry", "cpu_target.target_context.codegen")()


@cache
def _passes_are_chosen() -> bool:
    """Try once whether numba asks for its passes where they are chosen here."""
    try:
        codegen = _codegen()
        with _chosen_passes(codegen, long=False):
            codegen._function_pass_manager()
    except (AttributeError, KeyError, TypeError) as missing:
        _say(f"_pass_builder, _function_pass_manager or _tm as expected ({missing})", AS_NUMBA)
        return False
    return True


@contextmanager
def _chosen_passes(codegen: Any, long: bool) -> Iterator[None]:
    def pass_builder(**chosen: Any) -> Any:
        settings = vars(config)
        options = _llvm.create_pipeline_tuning_options(chosen.get("opt", settings["OPT"]))
        options.loop_vectorization = long and chosen.get("loop_vectorize", settings["LOOP_VECTORIZE"])
        options.slp_vectorization = chosen.get("slp_vectorize", settings["SLP_VECTORIZE"])
        options.loop_unrolling = long
        return _llvm.create_pass_builder(codegen._tm, options)

    builder, functions = codegen._pass_builder, codegen._function_pass_manager
    codegen._pass_builder = pass_builder
    # The whole module is optimised thoroughly after its functions, so light passes over each function suffice.
    codegen._function_pass_manager = partial(functions, opt=1)
    try:
        yield
    finally:
        codegen._pass_builder, codegen._function_pass_manager = builder, functions


EACH_TIME = "compiled functions are not kept, and each process compiles them again"


def keep_by(dispatcher: Any, kept: Any) -> None:
    """Let numba take the compiled forms of a function from ``kept``, in place of files of its own."""
    if hasattr(dispatcher, "_cache"):
        dispatcher._cache = kept
    else:
        _say("_cache", EACH_TIME)


def has_files(dispatcher: Any) -> bool:
    """Return whether numba keeps a function in files of its own."""
    return type(getattr(dispatcher, "_cache", None)).__name__ == "FunctionCache"


def packed(value: Any) -> bytes | None:
    """Serialize a value held by a compiled function, or return None if numba cannot serialize it."""
    dumps = _found("core.serialize", "dumps")
    if dumps is None:
        _say("serialize.dumps", EACH_TIME)
        return None
    return bytes(dumps(value))


def parts_of(result: Any) -> bytes | None:
    """Serialize a compiled function, or return None if this numba's format differs."""
    if not (hasattr(result, "_reduce") and hasattr(result, "_rebuild")):
        _say("_reduce or _rebuild", EACH_TIME)
        return None
    try:
        return packed(result._reduce())
    except RuntimeError:  # llvmlite looks the code up in a set, and loses it where garbage is collected meanwhile
        return None


def rebuilt(context: Any, parts: Sequence[Any]) -> Any:
    """Rebuild a compiled function from its serialized parts, or return None if this numba's format differs."""
    rebuild = _found("core.compiler", "CompileResult._rebuild")
    if rebuild is None:
        return None
    context.refresh()
    return rebuild(context, *parts)


def fill_tables() -> None:
    """Do what numba does with the first function that is compiled or loaded, where it has a name."""
    for name in ("typing_context", "target_context"):
        refresh = _found("core.registry", f"cpu_target.{name}.refresh")
        if refresh is not None:
            refresh()


def whole_pickler() -> Any:
    """Return numba's bundled pickler that serializes classes and functions by value, or None if it is missing."""
    for name in ("numba.cloudpickle", "cloudpickle"):
        with suppress(ImportError):
            return importlib.import_module(name)
    return None
