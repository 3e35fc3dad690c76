"""The JSON form of a records field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from decoders import secrets
from decoders.primitives import Buffer
from decoders.problems import Code
from decoders.records import internal
from decoders.records.batches import Batch, Batches, Trouble, parse, parse_unaligned
from decoders.records.compiled import in_base64, record_forms, text_or_base64
from decoders.records.control import ToJson, key_json, type_of, value_json
from decoders.records.legacy import RECORD_COSTS
from decoders.records.opening import Opened, open_batch
from decoders.records.record import Record, RecordsError
from decoders.view import PLAIN, Payloads, View

GROWTH: Final = 64
"""How many times its size the batches of a message may grow to, where that is more than one batch may."""


class Allowance:
    """How many bytes the compressed batches of a message may still come to: many small ones can hold a lot together."""

    def __init__(self, view: View, size: int) -> None:
        self.most = self.left = max(view.batch_limit, GROWTH * size)

    def open(self, records: Buffer, batch: Batch, limit: int) -> Opened:
        """Open a batch within what is left, and within a `limit` of its own."""
        opened = open_batch(records, batch, limit=min(limit, self.left))
        if batch.header["compression"] == "none":
            return opened
        if self.left < limit:
            text = f"the batches of the message come to more than {self.most} bytes: not opened"
            beyond = Code.DECOMPRESSION_LIMIT
            troubles = [replace(one, message=text) if one.code is beyond else one for one in opened.troubles]
            opened = replace(opened, troubles=troubles)
        self.left -= min(self.left, max(opened.uncompressed_size or 0, RECORD_COSTS * len(opened.records)))
        return opened


def unaligned_records(records: Buffer) -> RecordsForm:
    return RecordsForm(records, aligned=False)


class RecordsForm(dict[str, Any]):
    """The JSON form of a records field; `troubles` are for the exchange's problems.

    Its batches have no records until `open` is called. Where the field is not `aligned` to batches (a piece of a
    snapshot, KIP-630), "truncatedHead" is how many bytes belong to one that began before.
    """

    troubles: list[Trouble]

    def __init__(self, records: Buffer, *, aligned: bool = True) -> None:
        start, parsed = (0, parse(records)) if aligned else parse_unaligned(records)
        super().__init__(sizeInBytes=len(records))
        if start:
            self["truncatedHead"] = start
        self["batches"] = [batch.header for batch in parsed.batches]
        self["truncatedTail"] = parsed.truncated_tail
        self._start = start
        self.troubles = [replace(trouble, offset=self._start + trouble.offset) for trouble in parsed.troubles]
        self._records = records[self._start :] if self._start else records
        self._parsed: Batches | None = parsed

    def open(
        self, to_json: ToJson, view: View = PLAIN, topic: str | None = None, allowance: Allowance | None = None
    ) -> None:
        """Give every batch its records; what is wrong in them is added to `troubles`. Lets go of the bytes.

        `topic` is the name of the records' topic, None where it is unknown; `allowance` is the message's, where that
        may have further fields.
        """
        if self._parsed is None:
            return
        allowance = allowance or Allowance(view, self["sizeInBytes"])
        troubles = []
        for index, batch in enumerate(self._parsed.batches):
            found = _open(self._records, batch, to_json, view, topic, allowance)
            path = f"batches[{index}]"
            troubles += [
                replace(
                    trouble,
                    offset=self._start + trouble.offset,
                    path=f"{path}.{trouble.path}" if trouble.path else path,
                )
                for trouble in found
            ]
        if troubles:
            self.troubles = sorted([*self.troubles, *troubles], key=lambda trouble: trouble.offset)
        self._records, self._parsed = b"", None


def _open(
    records: Buffer, batch: Batch, to_json: ToJson, view: View, topic: str | None, allowance: Allowance
) -> list[Trouble]:
    """Complete the header of a batch to its JSON form in place; returns what is wrong inside."""
    opened = allowance.open(records, batch, view.batch_limit)
    header = batch.header
    troubles = opened.troubles
    bad: list[tuple[int, int]] = []
    if header["magic"] == 2:
        shown, bad = record_forms(opened.records)
    else:
        shown = list(map(_message if header["magic"] else _message_v0, opened.records))
        if "recordCount" not in header:
            _complete(header, opened.records)
    if header.get("isControl"):
        troubles = [*troubles, *_control(batch, opened.records, shown, to_json)]
    elif topic in internal.TOPICS:
        troubles = [*troubles, *_internal(batch, opened.records, shown, to_json, view, topic)]
    elif view.payloads is not None:
        _show_payloads(view.payloads, topic, opened.records, shown)
    if topic in secrets.TOPICS and not view.show_secrets:
        _withhold_undecoded(opened.records, shown)
    header["uncompressedSizeInBytes"] = opened.uncompressed_size
    header["records"] = None if opened.uncompressed_size is None else shown
    # A header key is text by its type, so that one that is not cannot be shown as it is.
    return [
        *troubles,
        *(
            Trouble(batch.start, Code.BAD_UTF8, "a header's key is not UTF-8", f"records[{index}].headers[{at}].key")
            for index, at in bad
        ),
    ]


def _complete(header: dict[str, Any], records: list[Record]) -> None:
    """Give the header of a compressed set what its messages tell, in its place."""
    rest = dict(header)
    size = rest.pop("sizeInBytes")
    header.clear()
    if records:
        header["baseOffset"] = records[0][0]
    header.update(rest)
    if records:
        header["recordCount"] = len(records)
    header["sizeInBytes"] = size


def _show_payloads(payloads: Payloads, topic: str | None, records: list[Record], shown: list[dict[str, Any]]) -> None:
    """Show keys, values and header values as the chosen viewers read them."""
    show = payloads.show
    for (_, _, key, value, headers), form in zip(records, shown, strict=True):
        if key is not None:
            form["key"] = show(topic, "key", key, headers)
        if value is not None:
            form["value"] = show(topic, "value", value, headers)
        for (_, content), header in zip(headers, form.get("headers", ()), strict=True):
            if content is not None:
                header["value"] = show(topic, "header", content, headers)


def _withhold_undecoded(records: list[Record], shown: list[dict[str, Any]]) -> None:
    """Withhold what could not be read of records that can hold a secret: damage moves one to anywhere."""
    for (_, _, key, value, headers), form in zip(records, shown, strict=True):
        for part, data in (("key", key), ("value", value)):
            if not (isinstance(form[part], dict) and "decoded" in form[part]):
                form[part] = secrets.redacted(data)
        for (_, content), header in zip(headers, form.get("headers", ()), strict=True):
            header["value"] = secrets.redacted(content)


def _message(record: Record) -> dict[str, Any]:
    offset, timestamp, key, value, _ = record
    return {"offset": offset, "timestamp": timestamp, "key": text_or_base64(key), "value": text_or_base64(value)}


def _message_v0(record: Record) -> dict[str, Any]:
    offset, _, key, value, _ = record
    return {"offset": offset, "key": text_or_base64(key), "value": text_or_base64(value)}


def _control(batch: Batch, records: list[Record], shown: list[dict[str, Any]], to_json: ToJson) -> list[Trouble]:
    """Show the keys and values of control records decoded as well."""
    troubles = []
    for index, (record, form) in enumerate(zip(records, shown, strict=True)):
        key, value = record[2], record[3]
        if key is None:
            text = "a control record without key"
            troubles.append(Trouble(batch.start, Code.TRUNCATED, text, f"records[{index}].key"))
            continue
        try:
            form["key"] = {**in_base64(key), "decoded": key_json(key)}
            kind = type_of(key)
            decoded = None if value is None or kind is None else value_json(kind, value, to_json)
            if value is not None:
                form["value"] = in_base64(value) if decoded is None else {**in_base64(value), "decoded": decoded}
        except RecordsError as error:
            troubles.append(Trouble(batch.start, error.code, error.message, f"records[{index}].{error.part}"))
    return troubles


def _internal(
    batch: Batch, records: list[Record], shown: list[dict[str, Any]], to_json: ToJson, view: View, topic: str
) -> list[Trouble]:
    """Show the keys and values of an internal topic's records decoded as well."""
    troubles = []
    for index, (record, form) in enumerate(zip(records, shown, strict=True)):
        key, value = record[2], record[3]
        for part, data in (("key", key), ("value", value)):
            if data is not None:
                form[part], found = internal_part(topic, part, key, data, to_json, view)
                troubles += [Trouble(batch.start, code, text, f"records[{index}].{path}") for code, text, path in found]
    return troubles


def internal_part(
    topic: str, part: str, key: bytes | None, data: bytes, to_json: ToJson, view: View
) -> tuple[dict[str, Any], list[tuple[Code, str, str]]]:
    """The form of a key or value of an internal topic's record, and what is wrong: (code, message, path)."""
    body = values = None
    found = []
    try:
        body = internal.key_body(topic, data) if part == "key" else internal.value_body(topic, key, data)
        if body is not None:
            values, odd = internal.read(body, data, part)
            found = [(problem.code, problem.message, f"{part}.{problem.path}") for problem in odd]
    except RecordsError as error:
        found = [(error.code, error.message, error.part)]
    hidden = internal.withheld(topic, body, values, view)
    form: dict[str, Any] = secrets.redacted(data) if hidden else in_base64(data)
    if body is not None and values is not None:
        form["decoded"], inside = internal.decoded_json(body, data, values, to_json, view)
        found += [(problem.code, problem.message, f"{part}.{problem.path}") for problem in inside]
    return form, found
