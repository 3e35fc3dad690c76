# The C types of looked.py: what it is compiled with.

import cython
from cpython cimport array
from cpython.bytes cimport PyBytes_FromStringAndSize

cdef long long COPIED

cdef inline bytes piece(const unsigned char[:] view, Py_ssize_t start, Py_ssize_t end):
    start, end = max(start, 0), min(end, view.shape[0])
    if start >= end:
        return b""
    return PyBytes_FromStringAndSize(<const char *>&view[start], end - start)

cdef inline int put(array.array numbers, long long number) except -1:
    cdef Py_ssize_t count = len(numbers)
    array.resize_smart(numbers, count + 1)
    numbers.data.as_longlongs[count] = number
    return 0

@cython.final
cdef class Mapped:
    cdef object _view
    cdef const unsigned char[:] _bytes
    cdef long long _base

    cpdef read(self, long long start, long long end)

@cython.final
cdef class Looked:
    cdef object _read
    cdef readonly array.array starts, ends

    cpdef read(self, start, end)
