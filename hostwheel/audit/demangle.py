"""C++ names for people, by the C++ library of this machine (the Itanium ABI's __cxa_demangle)."""

import ctypes
from functools import cache

# A hostile name doubles in length every ten characters; at this one it cannot fill the memory.
LONGEST = 160
LONGEST_READABLE = 1000


@cache
def demangled(name: str) -> str:
    """`name` as in the source; unchanged where it is no C++ name, too long, or no library helps."""
    if not name.startswith("_Z") or len(name) > LONGEST or not name.isascii():
        return name
    readable = ask(name)
    return readable if readable and len(readable) <= LONGEST_READABLE else name


def ask(name: str) -> str | None:
    library = cxx_library()
    if library is None:
        return None
    status = ctypes.c_int()
    answer = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not answer:
        return None
    try:
        return ctypes.string_at(answer).decode(errors="replace")
    finally:
        library.free(ctypes.c_void_p(answer))


@cache
def cxx_library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
    except (OSError, AttributeError):
        return None
    return library
