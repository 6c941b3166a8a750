"""Machine code that Numba has compiled, called without Numba.

Importing Numba takes half a second and tens of megabytes, so a process that finds its code compiled does without: LLVM
loads the object code, and `ctypes` calls it in the way in which functions compiled by Numba call each other. There, an
array is seven numbers or more (owner, parent, size, size of an item, address, shape, strides), and a tuple is its
parts. Code that would call anything beyond the C library is not called this way.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numpy as np

Layout: TypeAlias = tuple[Any, ...]
"""What compiled code depends on among its arguments: kinds of numbers and of arrays, nested as they are."""

_KNOWN = (0, 68)
"""The newest Numba whose calls between functions are known to be made this way; newer ones call their own code."""
_ENTRY = "countermax_entry"
_FINE = (0, -2)  # codes of functions that end well: with a value, with None
_CALLED = {"memset", "memcpy", "memmove", "log", "pow"}
"""Functions that may be called: those of the C library, which every process has."""
_SYMBOL = np.dtype(
    [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")]
)
"""An entry of an object file's list of symbols, in the format ELF."""
_LOADED: list[llvm.ExecutionEngine] = []
"""What keeps loaded code in memory."""


def layout_of(arguments: tuple[Any, ...]) -> Layout:
    """What code is compiled for, of these arguments."""
    return tuple(_kind(each) for each in arguments)


def _kind(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return argument.dtype.str, argument.ndim, argument.flags.c_contiguous, argument.flags.writeable
    if isinstance(argument, tuple):
        return layout_of(argument)
    return "float" if isinstance(argument, float | np.floating) else "int"


def plain(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same with Python's own numbers, so that Numba compiles for one kind of each."""
    return tuple(
        each if isinstance(each, np.ndarray | tuple) else (float if _kind(each) == "float" else int)(each)
        for each in arguments
    )


@cache
def is_known() -> bool:
    """Whether code of this version of Numba can be called from here."""
    return tuple(int(each) for each in version("numba").split(".")[:2]) <= _KNOWN


@cache
def machine() -> str:
    """What object code depends on besides its source: the processor, and who compiled it."""
    return f"{_host()} {version('numba')} {version('llvmlite')}"


def name_of(function: str, layout: Layout) -> str:
    """A name for the object code of a function, by what it depends on."""
    return f"{function}-{sha256(f'{machine()} {layout}'.encode()).hexdigest()[:24]}.o"


def object_code(assembly: str, function: str, layout: Layout) -> bytes | None:
    """Compiles a function of a module in LLVM's language; None if it cannot be called from here.

    Args:
        assembly: The module.
        function: Name of the function in it.
        layout: Arguments that it is to be called with.
    """
    module = llvm.parse_assembly(assembly)
    entry = module.get_function(function)
    for each in module.functions:
        if not each.is_declaration and each.name != function:
            each.linkage = "internal"
    entry.name = _ENTRY
    expected = ["ptr", "ptr", *({"p": "ptr", "f": "double", "i": "i64"}[each] for each in _codes(layout))]
    wanted = [str(each.type) for each in entry.arguments]
    if wanted != expected:
        return None
    code: bytes = _target_machine().emit_object(module)
    return code if _missing(code) <= _CALLED else None


def _missing(code: bytes) -> set[str]:
    """The names that object code leaves to others."""
    parts = {each.name(): each.data() for each in llvm.ObjectFileRef.from_data(code).sections()}
    names = parts[b".strtab"]
    left = [each["name"] for each in np.frombuffer(parts[b".symtab"], _SYMBOL) if each["section"] == 0 and each["name"]]
    return {names[start : names.index(b"\0", start)].decode() for start in left}


def loaded(code: bytes, layout: Layout) -> Callable[[tuple[Any, ...]], None]:
    """A function that can be called with arguments of this layout.

    Args:
        code: Its object code.
        layout: The layout.
    """
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _LOADED.append(engine)
    kinds = {"p": ctypes.c_void_p, "f": ctypes.c_double, "i": ctypes.c_int64}
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *(kinds[each] for each in _codes(layout))
    )
    function = prototype(engine.get_function_address(_ENTRY))

    def call(arguments: tuple[Any, ...]) -> None:
        room = (ctypes.c_int64 * 2)()  # for a result, which there is none of, and for what went wrong
        at, numbers = ctypes.addressof(room), list[Any]()
        _append(numbers, arguments)
        code = function(at, at + 8, *numbers)
        if code not in _FINE:
            raise ArithmeticError(f"compiled code must not fail, but it ended with code {code}")

    return call


def _append(numbers: list[Any], arguments: tuple[Any, ...]) -> None:
    for each in arguments:
        if isinstance(each, np.ndarray):
            numbers += (None, None, each.size, each.itemsize, each.ctypes.data, *each.shape, *each.strides)
        elif isinstance(each, tuple):
            _append(numbers, each)
        else:
            numbers.append(each)


def _codes(layout: Layout) -> str:
    """A letter for each number that is passed: an address, an integer or a float."""
    found = ""
    for each in layout:
        if isinstance(each, str):
            found += each[0]
        elif each and isinstance(each[0], str) and each[0] not in ("int", "float"):
            found += "ppiip" + "ii" * each[1]
        else:
            found += _codes(each)
    return found


@cache
def _host() -> str:
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


@cache
def _target_machine() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple, cpu, features = _host().split(" ")
    target = llvm.Target.from_triple(triple)
    static = target.name.startswith("x86")  # as Numba does
    return target.create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="static" if static else "default", codemodel="jitdefault", jit=True
    )
