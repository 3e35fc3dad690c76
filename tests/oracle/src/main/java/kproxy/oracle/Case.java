package kproxy.oracle;

/** What a field can hold that a decoder may get wrong; each is wanted of every field that can have it. */
enum Case {
    /** A tagged field that the JSON does not give. */
    ABSENT,
    /** A tagged field given with its default, which Kafka does not write. */
    DEFAULT,
    /** A tagged field that is on the wire. */
    SET,
    NULL,
    PRESENT,
    EMPTY,
    ONE,
    MANY,
    FALSE,
    TRUE,
    MIN,
    MAX,
    ZERO,
    MINUS_ONE,
    ANY,
    NO_TEXT,
    ASCII,
    NON_ASCII,
    /** 128 units or more: a length of two bytes as a varint. */
    LONG,
    NO_BYTES,
    BYTES,
    NO_RECORDS,
    /** Not a number or infinite. */
    NOT_FINITE
}
