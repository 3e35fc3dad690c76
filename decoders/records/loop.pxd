# The C types of loop.py: what it is compiled with.

import cython

@cython.locals(
    raw="const unsigned char *",
    end=Py_ssize_t, position=Py_ssize_t, stop=Py_ssize_t, after=Py_ssize_t,
    number="long long", delta="long long", moment="long long", offset="long long",
    relative=bint, name=bytes, headers=tuple,
)
cpdef Py_ssize_t read_common(
    bytes data, Py_ssize_t start, Py_ssize_t count, long long base_offset, long long base_timestamp, object append_time,
    list out
)

@cython.locals(byte="long long", value="long long", shift=int)
cdef (long long, Py_ssize_t) _number(
    const unsigned char *raw, Py_ssize_t position, long long first, int most
) noexcept
