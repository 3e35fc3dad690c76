from kproxy.captures.errors import CaptureError as CaptureError
from kproxy.library.capture import Capture as Capture
from kproxy.library.capture import open as open  # noqa: A004 (the name that users expect)
from kproxy.library.errors import EncodeError as EncodeError
from kproxy.library.errors import FilterError as FilterError
from kproxy.library.exchange import Exchange as Exchange
from kproxy.library.exchange import Record as Record
from kproxy.library.exchange import Tree as Tree
from kproxy.library.live import Live as Live
from kproxy.library.live import proxy as proxy
from kproxy.library.messages import Message as Message
from kproxy.library.messages import decode as decode
from kproxy.library.messages import decode_all as decode_all
from kproxy.library.messages import encode as encode
from kproxy.library.rules import Fault as Fault
from kproxy.library.rules import Match as Match

__version__: str
__all__ = [
    "Capture",
    "CaptureError",
    "EncodeError",
    "Exchange",
    "Fault",
    "FilterError",
    "Live",
    "Match",
    "Message",
    "Record",
    "Tree",
    "decode",
    "decode_all",
    "encode",
    "open",
    "proxy",
]
