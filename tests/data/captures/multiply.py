"""multiply.py BASE.pcap[.xz] N OUT.pcap : N copies of a capture one after the other, each with its own addresses and time."""

import lzma, struct, sys


def main(base, n, out):
    b = (lzma.open if base.endswith(".xz") else open)(base, "rb").read()
    body = []
    p = 24
    t0 = struct.unpack_from("<I", b, 24)[0]
    last = t0
    while p < len(b):
        s, u, c, o = struct.unpack_from("<IIII", b, p)
        body.append((s, u, c, o, b[p + 16 : p + 16 + c]))
        p += 16 + c
        last = s
    span = last - t0 + 1
    with open(out, "wb") as f:
        f.write(b[:24])
        for i in range(int(n)):
            for s, u, c, o, d in body:
                hi, lo = divmod(i, 256)
                if i:
                    d = (
                        d[:27] + bytes([d[27] + hi, lo]) + d[29:31] + bytes([d[31] + hi, lo]) + d[33:]
                    )  # 2nd and 3rd octet of both IPv4 addresses
                f.write(struct.pack("<IIII", s + i * span, u, c, o) + d)


main(*sys.argv[1:])
