"""Explains a rule in words."""

from __future__ import annotations

from kproxy.decoders.jsonform import uuid_json
from kproxy.decoders.plurals import counted
from kproxy.decoders.schema import Definitions, definitions
from kproxy.decoders.stream import Side
from kproxy.faults.rule import (
    Action,
    Answer,
    Blackhole,
    Brokers,
    Coordinator,
    Correlation,
    Crc,
    Delay,
    Disconnect,
    Drop,
    Duplicate,
    Edit,
    Error,
    Hold,
    Intercept,
    Leader,
    Limit,
    Malform,
    Refuse,
    Rule,
    Slice,
    Swap,
    Throttle,
    TopicId,
    Trigger,
    Versions,
    seconds,
    side_name,
)

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
SOME_APIS = 4


def explain(rule: Rule, known: Definitions | None = None) -> str:
    """A sentence or two on what the rule does, when, and to what."""
    return f"{rule.name}: {_when(rule.trigger)} {_what(rule, known or definitions())}, {_does(rule.action)}."


def _what(rule: Rule, known: Definitions) -> str:
    names = [known.shown_api_name(key) for key in sorted(rule.apis)]
    if len(names) == len(known.apis):
        apis = "any API"
    elif len(names) <= SOME_APIS:
        apis = " or ".join(names)
    else:
        apis = f"{', '.join(names[: SOME_APIS - 1])} and {len(names) - SOME_APIS + 1} more APIs"
    decided = "exchange" if rule.late else "request"
    return f"{decided} of {apis} that matches {rule.match}"


def _when(trigger: Trigger) -> str:
    n = trigger.n
    main = {
        "always": "at each",
        "nth": f"at the {_ordinal(n)}",
        "first": f"at the first {n}" if n > 1 else "at the first",
        "every": f"at every {_ordinal(n)}",
        "after": f"after the first {n}, at each",
        "p": f"with a chance of {trigger.chance:.4g} at each",
        "once": "at the first",
    }[trigger.kind]
    per = f" (counted for each {trigger.per})" if trigger.per else ""
    lasts = f", for {seconds(trigger.lasts)} from the first match on," if trigger.lasts is not None else ""
    return main + per + lasts


def _ordinal(n: int) -> str:
    return f"{n}th" if n % 100 in {11, 12, 13} else f"{n}{_ENDINGS.get(n % 10, 'th')}"


def _does(action: Action) -> str:
    match action:
        case Error(applied=True):
            where = f" where {' and '.join(map(str, action.at))}" if action.at else ""
            return f"the broker carries it out, and the answer gets {action.name}{where}"
        case Error():
            if action.at:
                where = " and ".join(map(str, action.at))
                return f"the part where {where} never reaches the broker, and the answer has {action.name} for it"
            return f"kproxy answers {action.name} itself, and the request never reaches the broker"
        case Drop(on=Side.CLIENT):
            return "the request is dropped: the broker never sees it, and the client gets no answer"
        case Drop():
            return "the answer is dropped: the broker has carried out the request, but the client gets no answer"
        case Delay():
            jitter = f", give or take {seconds(action.jitter)}" if action.jitter else ""
            name = side_name(action.on)
            return f"the {name} is sent {seconds(action.time)} later{jitter}, and delays all {name}s after it"
        case Hold():
            until = f"`kproxy faults release`, at most {seconds(action.most)}"
            return f"the {side_name(action.on)} waits for {until}, and delays all {side_name(action.on)}s after it"
        case Intercept():
            name = side_name(action.on)
            return f"the {name} waits until somebody decides about it, at most {seconds(action.most)}"
        case Throttle():
            mute = "; further requests of the connection wait as long" if action.mute else ""
            return f"the answer tells the client to wait for {seconds(action.time)}{mute}"
        case Disconnect():
            how = "by RST" if action.reset else "by FIN"
            how += ", without TLS's close_notify," if action.unclean else ""
            when = {
                "before": "before the request is forwarded",
                "after": "after the broker has answered, and the client does not get the answer",
                "mid": f"after the first {action.sent} bytes of the answer",
            }[action.when]
            return f"the connection ends {how} {when}"
        case Blackhole(broker=True):
            return (
                "its broker becomes a black hole: nothing arrives on any connection to it, none ends, and new ones hang"
            )
        case Blackhole():
            return "its connection becomes a black hole: nothing arrives on it any more, and it does not end"
        case Refuse():
            return "all connections to its broker end by RST, and new ones as soon as they are open"
        case Edit():
            change = "is removed" if action.removes else f"becomes {action.written}"
            return f"{action.text} {change}"
        case Versions(hides=True):
            return f"the answer does not offer {action.api}"
        case Versions():
            return f"the answer offers only versions {action.low} to {action.high} of {action.api}"
        case Leader():
            return f"the answer names broker {action.node} as leader of {action.topic}-{action.partition}"
        case Coordinator(node=-1):
            return f"the answer says that {action.key} has no coordinator"
        case Coordinator():
            return f"the answer names broker {action.node} as coordinator of {action.key}"
        case Brokers(nodes=()):
            return "the answer names no brokers"
        case Brokers():
            return f"the answer names only the brokers {', '.join(map(str, action.nodes))}"
        case TopicId():
            return f"the answer gives {action.topic} the topic id {uuid_json(action.topic_id)}"
        case Crc():
            return f"the first record batch of each partition in the {side_name(action.on)} gets a wrong CRC"
        case Duplicate():
            return f"the {side_name(action.on)} is sent twice"
        case Correlation():
            return f"the answer's correlation id is changed by {action.by:+d}"
        case Swap():
            return "the answer is sent after the next one"
        case Limit():
            return f"the {side_name(action.on)} leaves with at most {action.rate:,} bytes a second"
        case Slice():
            return f"the {side_name(action.on)} leaves in pieces of {counted(action.n, 'byte')}"
        case Answer():
            return f"kproxy answers itself with {action.written}, and the request never reaches the broker"
        case Malform():
            return {
                "truncate": f"only the first {action.n} bytes of the {side_name(action.on)} are sent",
                "length": f"the length field of the {side_name(action.on)} says {action.n}",
                "flip": f"the lowest bit of byte {action.n} of the {side_name(action.on)} is flipped",
            }[action.how]
        case _:
            return str(action)
