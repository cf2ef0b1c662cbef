"""Long compiled functions, called by their names in the linker's table instead of copied into all that call them.

Numba links what a function calls into it, optimises all of it once more and keeps all of it on disk. Short functions
gain by that: LLVM writes them into their callers. Long ones it leaves as they are, once in each function that calls
them and in each that calls those; more than half of all machine code was made again in this way
(docs/decisions/0029).
"""

import sys
from copy import copy
from importlib import import_module
from typing import Any, NamedTuple

from llvmlite import binding
from numba.core import imputils

LONG = 150
"""From how many instructions on a function is called by its name; LLVM writes one of about 50 into its callers."""

_lowering: Any = imputils

_libraries: dict[str, list[Any]] = {}
"""The machine code that each name has stood for, which is to last as long as what calls it."""


class Callee(NamedTuple):
    """A function that a compiled one calls by name, kept on disk with it: what has to be there before that is loaded.

    Attributes
    ----------
    module, name : str
        Where the function is found.
    arguments : tuple of numba types
        What it is called with.
    """

    module: str
    name: str
    arguments: tuple[Any, ...]

    @property
    def symbol(self) -> str:
        """Its name in the linker's table."""
        return f"{self.module}.{self.name}{self.arguments}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how it is found again."""
        return recalled, tuple(self)

    def __call__(self) -> None:
        """Load or compile the function, and give it its name."""
        function: Any = getattr(import_module(self.module), self.name)
        if self.arguments not in function.overloads:
            allowed = function._can_compile  # it may be closed to other callers by now
            function.disable_compile(False)
            try:
                function.compile_as_stated(self.arguments)
            finally:
                function.disable_compile(not allowed)
        self.enter(function.overloads[self.arguments])

    def enter(self, result: Any) -> None:
        """Give the function, as compiled, its name."""
        known = _libraries.setdefault(self.symbol, [])
        if result.library not in known:
            place = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
            binding.add_symbol(self.symbol, place)
            known.append(result.library)


def recalled(module: str, name: str, arguments: tuple[Any, ...]) -> Callee:
    """Return what was kept on disk, with what calls it.

    Raises
    ------
    OSError
        The function is there no more, as after an upgrade. As of a file that is not there, numba then makes nothing of
        it, and compiles what calls the function anew.
    """
    try:
        found: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError) as cause:
        raise OSError(f"{module}.{name} is there no more") from cause
    if not hasattr(found, "compile_as_stated"):
        raise OSError(f"{module}.{name} is no compiled function by now")
    return Callee(module, name, arguments)


def link(function: Any, result: Any) -> None:
    """Have compiled callers of a function call it by name, where it is long.

    Parameters
    ----------
    function : numba dispatcher
        The function; one that no other process could find, inside another function or in a script, stays as it is.
    result : numba compile result
        What it has been compiled to, or loaded as.
    """
    # What it calls by name is needed by those too that it is copied into; numba forgets that of what it loads.
    result.library._reload_init.update(result.reload_init)
    callee = Callee(function.__module__, function.__name__, tuple(result.signature.args))
    known: Any = getattr(sys.modules.get(callee.module), callee.name, None)
    if known is not function or callee.module == "__main__":
        return
    if function.targetoptions.get("forceinline") or not _is_long(result):
        return
    callee.enter(result)
    by_name = _call(callee, result.fndesc)
    context = result.target_context
    context.remove_user_function(result.entry_point)
    context._defns[result.entry_point].append(by_name, by_name.signature)


def _is_long(result: Any) -> bool:
    code = result.library._get_module_for_linking().get_function(result.fndesc.llvm_func_name)
    instructions = (instruction for block in code.blocks for instruction in block.instructions)
    return any(count >= LONG for count, _ in enumerate(instructions, start=1))


def _call(callee: Callee, described: Any) -> Any:
    """Return what writes a call of a function into the code of a caller."""
    named = copy(described)
    named.mangled_name = callee.symbol
    write = _lowering.user_function(named, ())

    def write_and_remember(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        context.active_code_library._reload_init.add(callee)
        return write(context, builder, signature, values)

    write_and_remember.signature = write.signature  # type: ignore[attr-defined]
    write_and_remember.libs = write.libs  # type: ignore[attr-defined]
    return write_and_remember
