# The C types of loop.py: what it is compiled with.

import cython
from kproxy.decoders.exchange cimport Exchange, Frame, new_exchange, new_frame

cdef long long STRING, COMPACT_STRING
cdef Py_ssize_t MORE, BAD
cdef int NO_REPLY, REQUEST, RESPONSE, CONTROLLED_SHUTDOWN, HEAD
cdef object _WAITING, _CLIENT

cdef inline (int, int, int, int, int) request_head(bytes head) noexcept:
    cdef const unsigned char *data = head
    return (
        _number(data), _short(data + 4), _short(data + 6), _number(data + 8), _short(data + 12)
    )

cdef inline (int, int) response_head(bytes head) noexcept:
    cdef const unsigned char *data = head
    return _number(data), _number(data + 4)

cdef inline int _number(const unsigned char *data) noexcept nogil:
    return <int>(<unsigned int>data[0] << 24 | <unsigned int>data[1] << 16 | <unsigned int>data[2] << 8 | data[3])

cdef inline int _short(const unsigned char *data) noexcept nogil:
    return <signed short>(<unsigned short>(data[0] << 8 | data[1]))

@cython.locals(
    started=list, client_ids=dict, ends=list, ats=list, times=list, limit="long long", attention="long long",
    position="long long", floor="long long", last="long long", k=Py_ssize_t, begins="long long", border="long long",
    at="long long", head=bytes, size="long long", key=int, version=int, correlation_id=int, length="long long",
    end="long long", there="long long", header_end="long long", name=bytes, key_at="long long", kind=int,
    frame=Frame, exchange=Exchange,
)
cpdef whole_requests(framer, list out)

@cython.locals(
    ends=list, ats=list, times=list, limit="long long", attention="long long",
    position="long long", floor="long long", last="long long", k=Py_ssize_t, begins="long long", border="long long",
    at="long long", head=bytes, size="long long", correlation_id=int, end="long long", key_at="long long",
)
cpdef whole_responses(framer, list out)

@cython.locals(border="long long", spans=list)
cdef list _spans(list ends, list ats, Py_ssize_t k, long long at, long long position, long long end)

@cython.locals(
    data="const unsigned char *", size=Py_ssize_t, position="long long", steps=tuple, step="long long",
    length="long long", acks=int,
)
cpdef wants_no_reply(bytes frame, found)

@cython.locals(count="long long", length="long long")
cdef long long _after_tags(const unsigned char *data, Py_ssize_t size, long long position) noexcept

@cython.locals(value="long long", shift=int, byte="long long")
cdef (long long, long long) _varint(const unsigned char *data, Py_ssize_t size, long long position) noexcept
