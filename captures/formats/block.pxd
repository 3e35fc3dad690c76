# The C types of block.py: what it is compiled with.

import cython

cdef class Template:
    cdef public bytes template
    cdef public bint ipv6
    cdef public long long ip_sum, tcp_sum, sequence

    @cython.locals(sequence="long long")
    cpdef bytearray block(self, long long time_ns, bytes payload, long long acknowledge)

@cython.locals(
    headers=Py_ssize_t, captured=Py_ssize_t, total=Py_ssize_t, tcp=Py_ssize_t, tcp_size=Py_ssize_t,
    block=bytearray, raw="unsigned char *",
)
cdef bytearray _block(
    bytes template, bint ipv6, long long ip_sum, long long tcp_sum, long long time_ns, bytes payload,
    long long sequence, long long acknowledged
)

@cython.locals(i=Py_ssize_t)
cdef void _copy(unsigned char *raw, Py_ssize_t at, const unsigned char *data, Py_ssize_t size) noexcept

@cython.locals(i=int)
cdef void _little(unsigned char *raw, Py_ssize_t at, long long value) noexcept

@cython.locals(i=int)
cdef void _big(unsigned char *raw, Py_ssize_t at, int size, long long value) noexcept

cdef long long _fold(long long value) noexcept
