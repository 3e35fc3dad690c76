"""Captures packets of a network device by libpcap (tcpdump's library) through scapy's bindings.

libpcap filters packets in the kernel, which buffers up to BUFFER_BYTES of them until they are fetched. It counts the
packets dropped because the buffer is full, and delivers each packet of the loopback device once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from kproxy.captures.formats.pcapng_writer import LINKTYPE_RAW
from kproxy.decoders.extras import installing

BUFFER_BYTES = 32 << 20
LONGEST = 262_144
"""Snap length in bytes: offloading gives packets of more than 64 KiB."""
WAITING_MS = 10
"""Milliseconds for which the kernel gathers packets before it delivers them."""

_ERROR_BYTES = 256
_NO_SUCH_DEVICE, _NO_PERMISSION, _PROMISC_NO_PERMISSION, _NO_MORE_PACKETS = -5, -8, -11, 0
_DIFFERENT = {12: LINKTYPE_RAW, 14: LINKTYPE_RAW}
"""LINKTYPE_ numbers of files, by libpcap's DLT_ number, for link layers whose two numbers differ."""
_COOKED, _COOKED2 = 113, 276
_NANOSECONDS = 1


class SniffError(Exception):
    """kproxy cannot capture packets, or cannot go on capturing them; the message says why."""


class NotPermittedError(SniffError):
    """The user lacks the permission to capture packets."""


def _library() -> Any:
    """Scapy's bindings to libpcap. Raises SniffError if either is not installed."""
    try:
        from scapy.libs import winpcapy
    except ImportError:
        raise SniffError(f"sniffing needs scapy, which is not installed: {installing('sniff')}") from None
    except OSError:
        raise SniffError("libpcap is not installed (Debian, Ubuntu: apt-get install libpcap0.8)") from None
    return winpcapy


def devices() -> list[str]:
    """Names of the devices on which packets can be captured. Raises SniffError."""
    pcap = _library()
    first = ctypes.POINTER(pcap.pcap_if_t)()
    why = ctypes.create_string_buffer(_ERROR_BYTES)
    if pcap.pcap_findalldevs(ctypes.byref(first), why):
        raise SniffError(_text(why.value))
    names, one = [], first
    while one:
        names.append(_text(one.contents.name))
        one = one.contents.next
    pcap.pcap_freealldevs(first)
    return names


class Device:
    """A device whose packets are captured; call `close` at the end.

    No method blocks. Use select on `fileno()`, which may be ready before there are packets.
    """

    def __init__(self, name: str, bpf: str, *, promiscuous: bool = False) -> None:
        """`bpf` is a filter as tcpdump takes it; "" captures everything.

        Raises SniffError (no such device, a wrong filter, no libpcap), NotPermittedError.
        """
        self.name = name
        self._pcap = _library()
        self._why = ctypes.create_string_buffer(_ERROR_BYTES)
        self._handle: Any = self._pcap.pcap_create(name.encode(), self._why)
        if not self._handle:
            raise SniffError(f"{name}: {_text(self._why.value)}")
        self._missed = self._last_missed = 0
        try:
            self._open(bpf, promiscuous=promiscuous)
        except BaseException:
            self.close()
            raise

    def _open(self, bpf: str, *, promiscuous: bool) -> None:
        pcap, handle = self._pcap, self._handle
        pcap.pcap_set_snaplen(handle, LONGEST)
        pcap.pcap_set_promisc(handle, int(promiscuous))
        pcap.pcap_set_timeout(handle, WAITING_MS)
        pcap.pcap_set_buffer_size(handle, BUFFER_BYTES)
        calls = pcap._lib  # noqa: SLF001 (scapy binds all of libpcap but these two)
        calls.pcap_set_tstamp_precision(handle, _NANOSECONDS)
        status = pcap.pcap_activate(handle)
        if status < 0:
            raise self._refused(status)
        self._unit_ns = 1 if calls.pcap_get_tstamp_precision(handle) == _NANOSECONDS else 1000
        if pcap.pcap_datalink(handle) == _COOKED:  # all devices at once: only the newer header names the device
            pcap.pcap_set_datalink(handle, _COOKED2)
        number = pcap.pcap_datalink(handle)
        self.link: int = _DIFFERENT.get(number, number)
        """The LINKTYPE_ number of the device's packets."""
        program = pcap.bpf_program()
        if pcap.pcap_compile(handle, ctypes.byref(program), bpf.encode(), 1, 0xFFFFFFFF):
            raise SniffError(f"not a filter: {bpf!r}: {self._said}")
        failed = pcap.pcap_setfilter(handle, ctypes.byref(program))
        pcap.pcap_freecode(ctypes.byref(program))
        if failed or pcap.pcap_setnonblock(handle, 1, self._why) < 0:
            raise SniffError(f"{self.name}: {self._said or _text(self._why.value)}")
        if self.fileno() < 0:
            raise SniffError(f"{self.name}: this device does not support waiting for packets")

    def _refused(self, status: int) -> SniffError:
        if status in {_NO_PERMISSION, _PROMISC_NO_PERMISSION}:
            return NotPermittedError(f"no permission to listen on {self.name}")
        if status == _NO_SUCH_DEVICE:
            return SniffError(f"no device {self.name!r}; there are {', '.join(devices()) or 'none that you may use'}")
        return SniffError(f"{self.name}: {self._said or _text(self._pcap.pcap_statustostr(status))}")

    @property
    def _said(self) -> str:
        return _text(self._pcap.pcap_geterr(self._handle))

    def fileno(self) -> int:
        return int(self._pcap.pcap_get_selectable_fd(self._handle))

    def packets(self) -> Iterator[tuple[int, bytes, int]]:
        """The packets that have arrived: (time in ns since the epoch, captured bytes, length on the wire).

        Ends when the buffer is empty. Raises SniffError if the device has disappeared.
        """
        pcap, handle = self._pcap, self._handle
        header = ctypes.POINTER(pcap.pcap_pkthdr)()
        data = ctypes.POINTER(pcap.u_char)()
        at, to = ctypes.byref(header), ctypes.byref(data)
        fetch, copy, unit = pcap.pcap_next_ex, ctypes.string_at, self._unit_ns
        while (got := fetch(handle, at, to)) > _NO_MORE_PACKETS:
            found = header.contents
            moment = found.ts
            yield moment.tv_sec * 1_000_000_000 + moment.tv_usec * unit, copy(data, found.caplen), found.len
        if got < 0:
            raise SniffError(f"{self.name}: {self._said}")

    @property
    def missed(self) -> int:
        """Number of packets dropped since the device was opened because the buffer was full."""
        counters = self._pcap.pcap_stat()
        if not self._pcap.pcap_stats(self._handle, ctypes.byref(counters)):
            now = counters.ps_drop & 0xFFFFFFFF  # a 32-bit counter, which wraps
            self._missed += (now - self._last_missed) & 0xFFFFFFFF
            self._last_missed = now
        return self._missed

    def close(self) -> None:
        if self._handle:
            self._pcap.pcap_close(self._handle)
            self._handle = None


def _text(said: bytes | None) -> str:
    return (said or b"").decode("utf-8", "replace")
