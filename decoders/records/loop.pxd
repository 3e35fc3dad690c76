# The C types of loop.py: what it is compiled with.

import cython

@cython.final
cdef class CommonRecords:
    cdef bytes data, name
    cdef readonly Py_ssize_t position, left
    cdef long long base_offset, base_timestamp, delta
    cdef bint relative
    cdef object timestamp

    @cython.locals(
        data=bytes, raw="const unsigned char *",
        end=Py_ssize_t, position=Py_ssize_t, stop=Py_ssize_t, after=Py_ssize_t,
        number="long long", moment="long long", offset="long long", name=bytes, headers=tuple,
    )
    cdef tuple read(self)

@cython.locals(byte="long long", value="long long", shift=int)
cdef (long long, Py_ssize_t) _number(
    const unsigned char *raw, Py_ssize_t position, long long first, int most
) noexcept
