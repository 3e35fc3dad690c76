# The C types of passing.py: what it is compiled with.

import cython

@cython.final
cdef class Passing:
    cdef public dict plans, noted, in_flight
    cdef object unchanged
    cdef public Py_ssize_t request_rest, response_rest, requests, responses, waiting
    cdef public bint requests_known, responses_known, stopped

    @cython.locals(size=Py_ssize_t, length="long long", key="long long", correlation_id="long long", in_flight=dict)
    cpdef bint from_client_passes(self, bytes data) except -1

    @cython.locals(size=Py_ssize_t, length="long long", correlation_id="long long", in_flight=dict, waiting=list)
    cpdef bint from_broker_passes(self, bytes data) except -1

    cdef bint is_next(self, long long correlation_id) except -1

@cython.locals(first="long long")
cdef long long _number(bytes data, Py_ssize_t at) noexcept

@cython.final
cdef class Notes:
    cdef Py_ssize_t most_bytes, size
    cdef object begun, full
    cdef list calls

    @cython.locals(count=Py_ssize_t)
    cpdef add(self, Py_ssize_t size, object call, tuple arguments, bint answer=*)

@cython.final
cdef class Packets:
    cdef Py_ssize_t most_bytes
    cdef readonly Py_ssize_t size, count
    cdef object full
    cdef readonly list buffers

    cpdef add(self, list buffers, Py_ssize_t size, Py_ssize_t count)

cdef class Pair:
    cdef public Packets packets
    cdef public tuple directions
    cdef public Py_ssize_t longest, unacknowledged
    cdef public list ended
    cdef public int speaking

    @cython.locals(size=Py_ssize_t)
    cpdef add_data(self, now, int side, data, comment=*, Py_ssize_t beyond=*)

cdef class Side:
    cdef public int side
    cdef public list passed
    cdef public Side other
    cdef public object transport, record
    cdef public Passing passing
    cdef public Notes notes

    @cython.locals(passing=Passing, other=Side, notes=Notes)
    cpdef data_received(self, bytes data)
