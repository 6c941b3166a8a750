"""Functions compiled by Numba, kept from one process to the next for exactly this source.

Numba looks at the file of a function, not at the files of what it calls, and reads what it has kept before it asks
whether that is still right. So what is kept lies in a folder named after the source of all compiled code: another
release has another folder, and meets nothing of this one.

On Linux the object code itself is kept, and a process that finds it never imports Numba. Elsewhere, and where code does
not lend itself to that, Numba keeps it in its own way.
"""

import sys
from collections.abc import Callable
from functools import cached_property
from threading import RLock
from typing import Any

from countermax.mdp.replays.engines._keeping import folder_of_source, keep, kept

_LOCK = RLock()  # compiling is for one thread at a time
_DIRECTLY = sys.platform == "linux"


class Compiled:
    """A function for numbers, arrays and tuples of them, compiled for each kind of arguments when first called.

    It asks for no memory and gives nothing back when called from Python; results go to arrays among its arguments.
    """

    def __init__(self, function: Callable[..., None]):
        self._function = function
        self._known: dict[Any, Callable[[tuple[Any, ...]], None]] = {}
        self.num_compiled = 0
        """How often Numba was asked to compile it for Python in this process."""

    def __call__(self, *arguments: Any) -> None:
        """Calls compiled code, beside other threads."""
        from countermax.mdp.replays.engines._machine import layout_of, plain

        arguments = plain(arguments)
        layout = layout_of(arguments)
        call = self._known.get(layout)
        if call is None:
            with _LOCK:
                call = self._known[layout] = self._known.get(layout) or self._found(arguments, layout)
        call(arguments)

    def _found(self, arguments: tuple[Any, ...], layout: Any) -> Callable[[tuple[Any, ...]], None]:
        """Machine code, kept or compiled now; Numba where it cannot be called directly."""
        from countermax.mdp.replays.engines import _machine

        if not (_DIRECTLY and _machine.is_known()):
            return self._by_numba
        name = _machine.name_of(self._function.__name__, layout)
        code = kept(name)
        if code is None:
            code = self._compiled(arguments, layout)
            if code is None:
                return self._by_numba
            keep(name, code)
        return _machine.loaded(code, layout)

    def _compiled(self, arguments: tuple[Any, ...], layout: Any) -> bytes | None:
        import numba

        from countermax.mdp.replays.engines._machine import object_code

        self.num_compiled += 1
        signature = tuple(map(numba.typeof, arguments))
        self._inner.compile(signature)
        found = self._inner.overloads[signature]
        return object_code(found.library.get_llvm_str(), found.fndesc.llvm_func_name, layout)

    def _by_numba(self, arguments: tuple[Any, ...]) -> None:
        self._outer(*arguments)

    @cached_property
    def _inner(self) -> Any:
        """As Numba compiles it for other compiled code."""
        import numba

        options: Any = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        return numba.njit(nogil=True, **options)(self._function)

    @cached_property
    def _outer(self) -> Any:
        """As Numba compiles it for Python."""
        import numba

        self.num_compiled += 1
        folder = folder_of_source()
        if folder is None:
            return numba.njit(nogil=True)(self._function)
        settings: Any = numba.config
        before, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)
        try:
            return numba.njit(cache=True, nogil=True)(self._function)
        except RuntimeError:  # there is no file with the source, or it cannot be kept there
            return numba.njit(nogil=True)(self._function)
        finally:
            settings.CACHE_DIR = before

    @property
    def _numba_type_(self) -> Any:
        """What other compiled code calls."""
        return self._inner._numba_type_


def compiled(function: Callable[..., Any]) -> Compiled:
    """Compiles a function when it is first called; it runs beside other threads, and is kept where that can be."""
    return Compiled(function)
