# The C types of text.py: what it is compiled with.

import cython

@cython.locals(
    room=Py_ssize_t, at=Py_ssize_t, out=bytearray, table=bytes, raw="unsigned char *", kinds="const unsigned char *", first=bint,
    record=tuple, key=bytes, value=bytes, name=bytes, content=bytes, headers=tuple,
)
cpdef bytes records_text(list records)

@cython.locals(source="const unsigned char *", index=Py_ssize_t)
cdef Py_ssize_t _literal(unsigned char *raw, Py_ssize_t at, bytes text)

@cython.locals(end=Py_ssize_t, position=Py_ssize_t, rest="long long")
cdef Py_ssize_t _number(unsigned char *raw, Py_ssize_t at, long long number) noexcept

@cython.locals(source="const unsigned char *", index=Py_ssize_t, byte="unsigned char", kind="unsigned char")
cdef Py_ssize_t _payload(unsigned char *raw, Py_ssize_t at, bytes data, const unsigned char *kinds)
