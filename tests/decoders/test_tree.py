from __future__ import annotations

import pytest

from kproxy.decoders.problems import Code
from kproxy.decoders.schema.layout import layout
from kproxy.decoders.tree import Node, first_error, tree, values
from tests.decoders.support import RELEASES, decoded, smallest
from tests.support.places_to_cut import Ends, each_end


def overlaps(node: Node) -> list[Node]:
    """Nodes that extend beyond their parent or overlap the node before."""
    wrong = []
    at = node.start
    for child in node.children:
        if child.start < at or child.end > node.end:
            wrong.append(child)
        # tagged fields lie inside the bytes of the list of tags
        if child.name != "_unknownTaggedFields":
            at = child.end
        wrong += overlaps(child)
    return wrong


@pytest.mark.parametrize("release", RELEASES)
def test_the_tree_of_every_golden_message_has_the_values_of_the_compiled_function(release: str) -> None:
    for one, read in decoded(release):
        assert read.message is not None
        node = tree(read.message, read.version, one.frame, read.body_start, len(one.frame))
        assert node.end == len(one.frame), one
        assert values(node, layout(read.message, read.version)) == read.body, one


def test_nodes_lie_inside_their_parents_one_after_the_other() -> None:
    for one, read in smallest("4.4.0"):
        assert read.message is not None
        node = tree(read.message, read.version, one.frame, read.body_start, len(one.frame))
        assert not overlaps(node), one


def test_every_byte_of_a_message_belongs_to_a_leaf_or_to_a_length() -> None:
    for one, read in smallest("4.4.0"):
        assert read.message is not None
        node = tree(read.message, read.version, one.frame, read.body_start, len(one.frame))
        for offset in range(read.body_start, len(one.frame)):
            found = node.at(offset)
            assert found.start <= offset < found.end
            assert found is not node, (one, offset)


@each_end
def test_a_cut_message_keeps_what_was_read(ends: Ends) -> None:
    for one, read in smallest("4.4.0"):
        assert read.message is not None
        whole = tree(read.message, read.version, one.frame, read.body_start, len(one.frame))
        leaves = {(n.path, n.start, n.end): n.value for n in whole.walk() if not n.children}
        for end in ends(read.body_start, len(one.frame)):
            cut = tree(read.message, read.version, one.frame, read.body_start, end)
            assert cut.end <= end
            problems = [n.problem for n in cut.walk() if n.problem is not None]
            assert [p.code for p in problems] == [Code.TRUNCATED], (one, end)
            before = {
                (n.path, n.start, n.end): n.value
                for n in cut.walk()
                if not n.children and n.problem is None and n.end > n.start and n.name != "_unknownTaggedFields"
            }
            assert before.items() <= leaves.items(), (one, end)
            error = first_error(read.message, read.version, one.frame, read.body_start, end, [])
            assert error is not None
            assert (error.code, error.offset, error.path) == (
                problems[0].code,
                problems[0].offset,
                problems[0].path,
            )


def test_paths_name_fields_as_problems_do() -> None:
    one, read = next((o, r) for o, r in decoded("4.4.0") if o.name == "MetadataResponse" and o.body["topics"])
    assert read.message is not None
    node = tree(read.message, read.version, one.frame, read.body_start, len(one.frame))
    paths = {child.path for child in node.walk()}
    assert "topics[0].errorCode" in paths
    assert "topics" in paths
    assert node.path == ""


def test_arrays_of_numbers_have_a_node_for_each() -> None:
    for one, read in decoded("4.4.0"):
        if one.name != "MetadataResponse":
            continue
        assert read.message is not None
        node = tree(read.message, read.version, one.frame, read.body_start, len(one.frame))
        replicas = [n for n in node.walk() if n.name == "replicaNodes" and n.value]
        for array in replicas:
            assert array.type == "[]int32"
            assert [child.path for child in array.children] == [f"{array.path}[{i}]" for i in range(array.value)]
            assert array.children[-1].end == array.end
            assert int.from_bytes(one.frame[array.end - 4 : array.end], "big", signed=True) == array.children[-1].value
        if replicas:
            return
    pytest.fail("no golden Metadata response has replicas")
