# The C types of pairing.py: what it is compiled with.

import cython
from kproxy.decoders.exchange cimport Exchange, Frame

cdef int BROKEN, IN_ORDER, NO_REPLY, ONE_WAY, RESPONSE, TOKEN
cdef object _NEVER, _CUT, _OK

@cython.final
cdef class Pairing:
    cdef object connection, limits, _fits
    cdef list started
    cdef public list done
    cdef readonly dict outstanding, repeated, broken
    cdef dict early
    cdef Py_ssize_t repeats, earlies
    cdef list unanswered, tokens, in_order, headless
    cdef readonly object deadline
    cdef object asked_from

    @cython.locals(item=tuple, asking=tuple, kind=int, count=Py_ssize_t)
    cpdef Py_ssize_t take(self, list answers, list asked, Py_ssize_t index, ask, other, search) except -1

    @cython.locals(outstanding=dict)
    cpdef request(self, key, Exchange exchange, int kind, correlation_id)

    @cython.locals(exchange=Exchange)
    cpdef response(self, key, Frame frame, problems, correlation_id)

    cdef _answer(self, key, Exchange exchange, Frame frame, problems)
    cdef bint _is_next(self, Frame frame, Exchange exchange) except -1
    @cython.locals(request=Frame, response=Frame)
    cdef _finish(self, key, Exchange exchange, status, reason)
    cdef _next(self, correlation_id)
    cdef _pass(self, key, Exchange answered)
    cdef _give_up_unanswered(self, key, Exchange exchange)
    cdef _remove(self, Exchange exchange)
    cdef _bound(self, key)
    cpdef keep(self, key, Py_ssize_t most, where)

cdef Frame _request(Exchange exchange)
cdef _at(Exchange exchange)
cdef _time(Exchange exchange)
cdef bint _before(Exchange one, Exchange other) except -1
