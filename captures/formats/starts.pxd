# The C types of starts.py: what it is compiled with.

import cython

cdef long long HEADER

@cython.locals(
    end=Py_ssize_t, count=Py_ssize_t, i=Py_ssize_t, at=Py_ssize_t,
    a="long long", b="long long", c="long long", d="long long", captured="long long",
)
cpdef Py_ssize_t starts(
    const unsigned char[:] data, Py_ssize_t position, Py_ssize_t longest, bint little, long long[:] found
)
