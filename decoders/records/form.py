"""Makes the JSON form of a records field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from kproxy.decoders import secrets
from kproxy.decoders.batches.batch import Batch, Batches, Trouble, parse, parse_unaligned
from kproxy.decoders.batches.compiled import in_base64, record_forms, records_text, text_or_base64
from kproxy.decoders.batches.legacy import RECORD_COSTS
from kproxy.decoders.batches.opening import Measured, Opened, measure_batch, open_batch, open_pieces
from kproxy.decoders.batches.record import Record, RecordsError
from kproxy.decoders.primitives import Buffer
from kproxy.decoders.problems import MOST, Code
from kproxy.decoders.records import internal
from kproxy.decoders.records.control import ToJson, key_json, type_of, value_json
from kproxy.decoders.records.skipped import ABORT
from kproxy.decoders.view import PLAIN, Payloads, View

GROWTH: Final = 64
"""The batches of a message may decompress to this many times its size, or to one batch's limit if that is more."""


class Allowance:
    """How many more bytes the compressed batches of one message may decompress to, all batches together.

    `troubles` is the number of faults that may still be kept for the message, because each record can have one.
    """

    def __init__(self, view: View, size: int) -> None:
        self.limit = view.batch_limit
        self.most = self.left = max(self.limit, GROWTH * size)
        self.troubles = MOST

    def open(self, records: Buffer, batch: Batch) -> Iterator[Opened]:
        """Open a batch piece by piece, within the limits of one batch and of the whole message."""
        left = self.left
        compressed = batch.header["compression"] != "none"
        size = count = 0
        for opened in open_pieces(records, batch, limit=min(self.limit, left)):
            size, count = opened.uncompressed_size or 0, count + len(opened.records)
            shared = compressed and left < self.limit
            yield opened._replace(troubles=list(map(self._named, opened.troubles))) if shared else opened
        if compressed:
            self._spend(size, count)

    def measure(self, records: Buffer, batch: Batch) -> Measured:
        """Measure a batch, within the same limits as `open`."""
        found = measure_batch(records, batch, limit=min(self.limit, self.left))
        if batch.header["compression"] != "none":
            self._spend(found.uncompressed_size or 0, found.records)
        return found

    def _spend(self, size: int, count: int) -> None:
        """Count a compressed batch of `size` bytes without compression, of which `count` records were read."""
        self.left -= min(self.left, max(size, RECORD_COSTS * count))

    def _named(self, trouble: Trouble) -> Trouble:
        if trouble.code is not Code.DECOMPRESSION_LIMIT:
            return trouble
        return replace(
            trouble, message=f"the batches of the message decompress to more than {self.most} bytes: not opened"
        )


def unaligned_records(records: Buffer) -> RecordsForm:
    return RecordsForm(records, aligned=False)


class RecordsText:
    """The records of a batch as JSON `text`. The first use of `forms` makes the JSON forms and drops the text."""

    __slots__ = ("_forms", "_records", "text")

    def __init__(self, text: bytes, records: list[Record]) -> None:
        self.text: bytes | None = text
        self._records = records
        self._forms: list[dict[str, Any]] = []

    @property
    def forms(self) -> list[dict[str, Any]]:
        if self.text is not None:
            self._forms, _ = record_forms(self._records)
            self._records, self.text = [], None
        return self._forms

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.forms)


class RecordsForm(dict[str, Any]):
    """The JSON form of a records field. Its batches have no records until `open` is called.

    `troubles` are faults that become problems of the exchange; `left_out` counts those beyond the message's allowance,
    which are dropped. If the field is not `aligned` to batches (a piece of a snapshot, KIP-630), "truncatedHead" is the
    number of leading bytes that belong to a batch of the previous piece.
    """

    troubles: list[Trouble]
    left_out = 0

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
        """Add the records to every batch and release the field's bytes; faults in the records are added to `troubles`.

        `topic` is the name of the records' topic, None if it is unknown. `allowance` is shared by all records fields of
        a message; without it the field gets one of its own.
        """
        for index, records in self.pieces(to_json, view, topic, allowance):
            batch = self["batches"][index]
            if batch["uncompressedSizeInBytes"] is None:
                batch["records"] = None
            elif isinstance(records, RecordsText):
                batch["records"] = records
            else:
                batch.setdefault("records", []).extend(records)

    def pieces(
        self, to_json: ToJson, view: View = PLAIN, topic: str | None = None, allowance: Allowance | None = None
    ) -> Iterator[tuple[int, list[dict[str, Any]] | RecordsText]]:
        """Open the batches piece by piece, once; yields (index of the batch, its next records).

        Each batch comes at least once, even an empty one. After its last piece, all members of a batch except "records"
        are set. The parameters are those of `open`.
        """
        if self._parsed is None:
            return
        allowance = allowance or Allowance(view, self["sizeInBytes"])
        before = len(self.troubles)
        for index, batch in enumerate(self._parsed.batches):
            first = 0
            for opened in allowance.open(self._records, batch):
                shown, troubles = _forms(batch, opened, first, to_json, view, topic)
                self._keep(troubles, f"batches[{index}]", allowance)
                first += len(opened.records)
                batch.header["uncompressedSizeInBytes"] = opened.uncompressed_size
                yield index, shown
        if len(self.troubles) > before:
            self.troubles.sort(key=lambda trouble: trouble.offset)
        self._records, self._parsed = b"", None

    def is_abort(self, index: int) -> bool:
        """Whether the control batch at `index` aborts its transaction. Valid only until the batches are opened; False
        afterwards.
        """
        if self._parsed is None:
            return False
        records = open_batch(self._records, self._parsed.batches[index], most=1).records
        return bool(records) and type_of(records[0][2]) == ABORT

    def _keep(self, troubles: list[Trouble], path: str, allowance: Allowance) -> None:
        """Keep the faults of a batch up to the message's limit, and count the rest."""
        kept = troubles[: allowance.troubles]
        allowance.troubles -= len(kept)
        self.left_out += len(troubles) - len(kept)
        self.troubles += [
            replace(one, offset=self._start + one.offset, path=f"{path}.{one.path}" if one.path else path)
            for one in kept
        ]


def _forms(
    batch: Batch, opened: Opened, first: int, to_json: ToJson, view: View, topic: str | None
) -> tuple[list[dict[str, Any]] | RecordsText, list[Trouble]]:
    """(JSON forms of a batch's opened records, faults in the batch)

    `first` is the index of the first of these records in the batch.
    """
    header = batch.header
    records, troubles = opened.records, opened.troubles
    hidden = topic in secrets.TOPICS and not view.show_secrets
    bad: list[tuple[int, int]] = []
    if view.text and _plain(opened, header, view, topic) and (text := records_text(records)) is not None:
        return RecordsText(text, records), troubles
    if header["magic"] == 2:
        shown, bad = record_forms(records)
    else:
        shown = list(map(_message if header["magic"] else _message_v0, records))
        if "recordCount" not in header:
            _complete(header, records)
    if header.get("isControl"):
        troubles = [*troubles, *_control(batch, records, first, shown, to_json, hidden=hidden)]
    elif topic in internal.TOPICS:
        troubles = [*troubles, *_internal(batch, records, first, shown, to_json, view, topic)]
    elif view.payloads is not None:
        _show_payloads(view.payloads, topic, records, shown)
    if hidden:
        _withhold_undecoded(records, shown)
    # A header key is a string in JSON, so the form cannot hold the bytes of a key that is not UTF-8.
    text = "a header's key is not UTF-8"
    odd = [Trouble(batch.start, Code.BAD_UTF8, text, f"records[{first + one}].headers[{at}].key") for one, at in bad]
    return shown, [*troubles, *odd]


def _plain(opened: Opened, header: dict[str, Any], view: View, topic: str | None) -> bool:
    """Whether the JSON of these records depends on their bytes alone (on no viewer, definition or secret) and `opened`
    holds all records of the batch.
    """
    return (
        view.payloads is None
        and topic not in internal.TOPICS
        and topic not in secrets.TOPICS
        and header.get("isControl") is False
        and opened.uncompressed_size is not None
        and len(opened.records) == header["recordCount"]
    )


def _complete(header: dict[str, Any], records: list[Record]) -> None:
    """Add base offset and record count to the header of a message set, in JSON order; these are known only from its
    messages.
    """
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
    """Replace keys, values and header values in `shown` by the output of the chosen viewers."""
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
    """Withhold all undecoded parts of records that may hold secrets: in damaged records a secret may be anywhere."""
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


def _control(
    batch: Batch, records: list[Record], first: int, shown: list[dict[str, Any]], to_json: ToJson, *, hidden: bool
) -> list[Trouble]:
    """Add the decoded keys and values of control records to `shown`; returns the faults in them.

    `hidden` withholds bytes that are not decoded completely.
    """
    troubles = []
    for index, (record, form) in enumerate(zip(records, shown, strict=True), first):
        key, value = record[2], record[3]
        if key is None:
            text = "a control record without key"
            troubles.append(Trouble(batch.start, Code.TRUNCATED, text, f"records[{index}].key"))
            continue
        try:
            form["key"] = _with_inside(key, key_json(key), hidden=hidden)
            kind = type_of(key)
            if value is not None and kind is not None:
                form["value"] = _with_inside(value, value_json(kind, value, to_json), hidden=hidden)
        except RecordsError as error:
            troubles.append(Trouble(batch.start, error.code, error.message, f"records[{index}].{error.part}"))
    return troubles


def _with_inside(data: bytes, inside: tuple[dict[str, Any], bool] | None, *, hidden: bool) -> dict[str, Any]:
    """The JSON form of bytes with the content decoded from them.

    `inside` is (content, whether all bytes were decoded).
    """
    plain: dict[str, Any] = in_base64(data)
    if inside is None:
        return plain
    decoded, whole = inside
    return {**(secrets.redacted(data) if hidden and not whole else plain), "decoded": decoded}


def _internal(
    batch: Batch,
    records: list[Record],
    first: int,
    shown: list[dict[str, Any]],
    to_json: ToJson,
    view: View,
    topic: str,
) -> list[Trouble]:
    """Add the decoded keys and values of an internal topic's records to `shown`; returns the faults in them."""
    troubles = []
    for index, (record, form) in enumerate(zip(records, shown, strict=True), first):
        key, value = record[2], record[3]
        for part, data in (("key", key), ("value", value)):
            if data is not None:
                form[part], found = internal_part(topic, part, key, data, to_json, view)
                troubles += [Trouble(batch.start, code, text, f"records[{index}].{path}") for code, text, path in found]
    return troubles


def internal_part(
    topic: str, part: str, key: bytes | None, data: bytes, to_json: ToJson, view: View
) -> tuple[dict[str, Any], list[tuple[Code, str, str]]]:
    """(JSON form of the key or value of an internal topic's record, faults in it as (code, message, path))"""
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
