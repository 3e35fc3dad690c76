# Where the slots of exchange.py's classes lie: behind an object's head, in the order of their names.

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        PyObject *at, *comments, *first_time, *missing, *side, *size, *spans, *stream_offset, *time;
    } FrameObject;

    typedef struct {
        PyObject_HEAD
        PyObject *api_key, *api_version, *asked_by, *client_id, *connection, *correlation_id, *end, *number, *problems,
            *protocol, *reason, *request, *response, *session, *status, *token, *truths;
    } ExchangeObject;

    /* What calls of the classes make, with a value for each field, in the order of the fields. */

    #define SET(name) made->name = (Py_INCREF(name), name)

    static inline PyObject *decoders_frame(
        PyObject *type, PyObject *side, PyObject *stream_offset, PyObject *size, PyObject *first_time, PyObject *time,
        PyObject *at, PyObject *spans, PyObject *comments, PyObject *missing
    ) {
        FrameObject *made = (FrameObject *)PyType_GenericAlloc((PyTypeObject *)type, 0);
        if (made != NULL) {
            SET(side); SET(stream_offset); SET(size); SET(first_time); SET(time); SET(at); SET(spans); SET(comments);
            SET(missing);
        }
        return (PyObject *)made;
    }

    static inline PyObject *decoders_exchange(
        PyObject *type, PyObject *number, PyObject *connection, PyObject *api_key, PyObject *api_version,
        PyObject *correlation_id, PyObject *client_id, PyObject *request, PyObject *response, PyObject *status,
        PyObject *reason, PyObject *problems, PyObject *token, PyObject *protocol, PyObject *asked_by, PyObject *truths,
        PyObject *session, PyObject *end
    ) {
        ExchangeObject *made = (ExchangeObject *)PyType_GenericAlloc((PyTypeObject *)type, 0);
        if (made != NULL) {
            SET(number); SET(connection); SET(api_key); SET(api_version); SET(correlation_id); SET(client_id);
            SET(request); SET(response); SET(status); SET(reason); SET(problems); SET(token); SET(protocol);
            SET(asked_by); SET(truths); SET(session); SET(end);
        }
        return (PyObject *)made;
    }
    """
    ctypedef class kproxy.decoders.exchange.Frame [object FrameObject, check_size error]:
        cdef object at, comments, first_time, missing, side, size, spans, stream_offset, time

    ctypedef class kproxy.decoders.exchange.Exchange [object ExchangeObject, check_size error]:
        cdef object api_key, api_version, asked_by, client_id, connection, correlation_id, end, number, problems
        cdef object protocol, reason, request, response, session, status, token, truths

    object decoders_frame(
        object type, object side, object stream_offset, object size, object first_time, object time, object at,
        object spans, object comments, object missing
    )
    object decoders_exchange(
        object type, object number, object connection, object api_key, object api_version, object correlation_id,
        object client_id, object request, object response, object status, object reason, object problems, object token,
        object protocol, object asked_by, object truths, object session, object end
    )

cdef inline Frame new_frame(side, stream_offset, size, first_time, time, at, list spans, comments, missing):
    return <Frame>decoders_frame(Frame, side, stream_offset, size, first_time, time, at, spans, comments, missing)

cdef inline Exchange new_exchange(
    number, connection, api_key, api_version, correlation_id, client_id, request, response, status, reason,
    list problems, token, protocol, asked_by, truths, session, end
):
    return <Exchange>decoders_exchange(
        Exchange, number, connection, api_key, api_version, correlation_id, client_id, request, response, status,
        reason, problems, token, protocol, asked_by, truths, session, end
    )
