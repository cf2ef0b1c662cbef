"""The loops of compiled functions are left as short as they are.

A compiler makes each loop ready for thousands of turns: several turns of it at a time, entries side by side in vector
registers, the rest behind. At the few dozen turns that loops have here, over neighbours, outputs and the elements of a
dictionary, there is little but the rest, and writing all that out takes a fifth of the time of compilation. What is
long is written in lanes (:mod:`kernelswarm.agents.arithmetic.lanes`), or said to be.

Neither changes a bit: no sum may be reordered either way.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import binding
from numba.core import config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

_llvm: Any = binding
_lock: Any = global_compiler_lock


@contextmanager
def optimised(long: bool) -> Iterator[None]:
    """Compile what is compiled in here, and by nobody else, without unrolled loops, and without vectors unless its
    loops are ``long``."""
    codegen: Any = cpu_target.target_context.codegen()
    before: Callable[..., Any] | None = getattr(codegen, "_pass_builder", None)
    if before is None or not hasattr(_llvm, "create_pass_builder"):  # numba before 0.62: its loops are as it makes them
        yield
        return

    def pass_builder(**chosen: Any) -> Any:
        settings = vars(config)
        options = _llvm.create_pipeline_tuning_options(chosen.get("opt", settings["OPT"]))
        options.loop_vectorization = long and chosen.get("loop_vectorize", settings["LOOP_VECTORIZE"])
        options.slp_vectorization = chosen.get("slp_vectorize", settings["SLP_VECTORIZE"])
        options.loop_unrolling = long
        return _llvm.create_pass_builder(codegen._tm, options)

    with _lock:  # while others compile, they wait
        codegen._pass_builder = pass_builder
        try:
            yield
        finally:
            codegen._pass_builder = before
