# The C types of shown.py: what it is compiled with.

import cython

@cython.locals(text=str)
cpdef object text_or_base64(bytes data)

@cython.locals(forms=list, bad=list, shown=list, record=tuple, headers=tuple, header=tuple, last=bytes, name=bytes, text=str)
cpdef tuple record_forms(list records)
