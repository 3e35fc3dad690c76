# The C types of block.py: what it is compiled with.

import cython

@cython.locals(
    headers=Py_ssize_t, captured=Py_ssize_t, total=Py_ssize_t, tcp=Py_ssize_t, tcp_size=Py_ssize_t,
    block=bytearray, raw="unsigned char *", ip_sum="long long", tcp_sum="long long",
)
cpdef bytearray packet_block(
    bytes template, bint ipv6, tuple sums, long long time_ns, bytes payload, long long sequence, long long acknowledged
)

@cython.locals(i=Py_ssize_t)
cdef void _copy(unsigned char *raw, Py_ssize_t at, const unsigned char *data, Py_ssize_t size) noexcept

@cython.locals(i=int)
cdef void _little(unsigned char *raw, Py_ssize_t at, long long value) noexcept

@cython.locals(i=int)
cdef void _big(unsigned char *raw, Py_ssize_t at, int size, long long value) noexcept

cdef long long _fold(long long value) noexcept
