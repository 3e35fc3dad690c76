# The C types of checks.py: what it is compiled with.

import cython
from cpython cimport array
from cpython.bytes cimport PyBytes_FromStringAndSize
from kproxy.captures.spark.claims._looked cimport put
from kproxy.decoders.exchange cimport Exchange, Frame

cdef object UNCLAIMED, _OK, _NO_REPLY_EXPECTED

cdef inline bytes numbers_of(
    long long started, long long done, long long place, long long asked, long long answered, long long check,
    long long asked_pieces, long long answered_pieces, long long key, long long version, long long number,
    long long asked_size, long long asked_first, long long asked_last, long long size, long long first, long long last,
):
    cdef long long[17] numbers = [
        started, done, place, asked, answered, check, asked_pieces, answered_pieces, key, version, number,
        asked_size, asked_first, asked_last, size, first, last,
    ]
    return PyBytes_FromStringAndSize(<char *>numbers, sizeof(numbers))

@cython.final
cdef class Found:
    cdef readonly bytearray numbers
    cdef readonly array.array spans
    cdef readonly list texts, talks
    cdef Py_ssize_t _count
    cdef object _connection
    cdef dict _begun

    @cython.locals(begun=dict, traits=tuple)
    cpdef take(self, list began, list done, keeps=*)

    @cython.locals(asked=tuple, answered=tuple, spans=tuple, at="long long", length="long long")
    cdef _add(self, Exchange item, long long done, tuple traits)

@cython.locals(traits=tuple)
cpdef check(Exchange item, long long started, long long done)

cdef _check(tuple traits)

@cython.locals(request=Frame, response=Frame, asked=tuple, answered=tuple, begin="long long", length="long long")
cdef tuple _traits(Exchange item, long long started, long long done)

@cython.locals(spans=list, count=Py_ssize_t, at="long long", length="long long")
cdef tuple _whole(Frame frame)

@cython.locals(request=Frame)
cdef _offset(Exchange item)
