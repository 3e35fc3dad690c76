# The C types of loop.py: what it is compiled with.

import cython

# What tuples.py does in Python. A tuple to which there is one reference is held by the caller alone and filled anew, as
# `zip` does, where references can be counted on. It is made of numbers, bytes and such tuples, so it is in no circle.
cdef extern from *:
    """
    #if CYTHON_COMPILING_IN_CPYTHON && !defined(Py_GIL_DISABLED)
    #define kp_alone(tuple) (Py_REFCNT(tuple) == 1)
    #else
    #define kp_alone(tuple) 0
    #endif

    #if PY_VERSION_HEX >= 0x030E0000
    #define kp_forget_hash(tuple) (((PyTupleObject *)(tuple))->ob_hash = -1)
    #else
    #define kp_forget_hash(tuple) ((void)0)
    #endif

    static CYTHON_INLINE void kp_put(PyObject *tuple, Py_ssize_t index, PyObject *item) {
        PyObject *before = PyTuple_GET_ITEM(tuple, index);
        PyTuple_SET_ITEM(tuple, index, item);
        Py_XDECREF(before);
    }

    static CYTHON_INLINE PyObject *kp_record(
        PyObject *last, long long offset, PyObject *timestamp, PyObject *key, PyObject *value, PyObject *headers
    ) {
        PyObject *number = PyLong_FromLongLong(offset);
        if (number == NULL)
            return NULL;
        if (last != Py_None && kp_alone(last)) {
            Py_INCREF(last);
            kp_forget_hash(last);
        } else {
            last = PyTuple_New(5);
            if (last == NULL) {
                Py_DECREF(number);
                return NULL;
            }
        }
        Py_INCREF(timestamp);
        Py_INCREF(key);
        Py_INCREF(value);
        Py_INCREF(headers);
        kp_put(last, 0, number);
        kp_put(last, 1, timestamp);
        kp_put(last, 2, key);
        kp_put(last, 3, value);
        kp_put(last, 4, headers);
        return last;
    }

    static CYTHON_INLINE PyObject *kp_header(PyObject *last, PyObject *name, PyObject *content) {
        PyObject *header;
        if (last != Py_None && kp_alone(last) && kp_alone(PyTuple_GET_ITEM(last, 0))) {
            header = PyTuple_GET_ITEM(last, 0);
            Py_INCREF(last);
            kp_forget_hash(last);
            kp_forget_hash(header);
        } else {
            header = PyTuple_New(2);
            if (header == NULL)
                return NULL;
            last = PyTuple_New(1);
            if (last == NULL) {
                Py_DECREF(header);
                return NULL;
            }
            PyTuple_SET_ITEM(last, 0, header);
        }
        Py_INCREF(name);
        Py_INCREF(content);
        kp_put(header, 0, name);
        kp_put(header, 1, content);
        return last;
    }
    """
    tuple record_tuple "kp_record"(
        tuple last, long long offset, object timestamp, object key, object value, object headers
    )
    tuple header_tuple "kp_header"(tuple last, object name, object content)

@cython.final
cdef class CommonRecords:
    cdef bytes data, name
    cdef readonly Py_ssize_t position, left
    cdef long long base_offset, base_timestamp, delta
    cdef bint relative
    cdef object timestamp
    cdef tuple record, header, header_before

    @cython.locals(
        data=bytes, raw="const unsigned char *",
        end=Py_ssize_t, position=Py_ssize_t, stop=Py_ssize_t, after=Py_ssize_t,
        number="long long", moment="long long", offset="long long", name=bytes, headers=tuple,
        record=tuple, header=tuple, several=bint,
    )
    cdef tuple read(self)

@cython.locals(byte="long long", value="long long", shift=int)
cdef (long long, Py_ssize_t) _number(
    const unsigned char *raw, Py_ssize_t position, long long first, int most
) noexcept
