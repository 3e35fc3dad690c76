# The C types of pairing.py: what it is compiled with.

import cython

cdef int BROKEN, IN_ORDER, NO_REPLY, ONE_WAY, RESPONSE, TOKEN
cdef object _NEVER, _CUT, _OK

@cython.final
cdef class Pairing:
    cdef object connection, limits, _fits
    cdef list started, headless
    cdef public list done
    cdef readonly dict outstanding, repeated, broken
    cdef dict early
    cdef Py_ssize_t repeats, earlies
    cdef object unanswered, tokens, in_order
    cdef readonly object deadline
    cdef object asked_from

    @cython.locals(item=tuple, asking=tuple, kind=int, count=Py_ssize_t)
    cpdef Py_ssize_t take(self, list answers, list asked, Py_ssize_t index, ask, other, search) except -1

    @cython.locals(outstanding=dict)
    cpdef request(self, key, exchange, int kind, correlation_id)

    cpdef response(self, key, frame, problems, correlation_id)

    cdef _answer(self, key, exchange, frame, problems)
    cdef bint _is_next(self, frame, exchange) except -1
    cdef _finish(self, key, exchange, status, reason)
    cdef _next(self, correlation_id)
    cdef _pass(self, key, answered)
    cdef _give_up_unanswered(self, key, exchange)
    cdef _remove(self, exchange)
    cdef _bound(self, key)

cdef _request(exchange)
cdef _at(exchange)
cdef _time(exchange)
cdef bint _before(one, other) except -1
