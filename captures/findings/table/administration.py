"""Rules about deletions and changes by administrators."""

from __future__ import annotations

from kproxy.captures.findings.model import Confidence, Fix, Severity
from kproxy.captures.findings.rule import Rule

ROWS = (
    Rule(
        id="admin.destructive",
        number=59,
        title="Somebody deleted or changed something",
        severity=Severity.INFO,
        confidence=Confidence.PROVEN,
        vantage="this client's traffic",
        meaning="A client deleted topics, records, groups or committed offsets, changed configurations, quotas or "
        "ACLs, or elected leaders that may lack records. That is not a fault by itself, but it explains other "
        "findings.",
        text="{client} {what}: {names}",
        cause="An administrator, or a program with an administrator's rights, made the change.",
        guards=(
            "Requests that only validate, and those that were refused as a whole, do not count.",
            "Values of configurations are not shown, because they may hold secrets.",
        ),
        thresholds=(),
        fixes=(
            Fix("broker", None, None, "if the change was a mistake: ACLs limit who may make it; "
                "delete.topic.enable=false forbids to delete topics"),
        ),
        verify="The capture has no further request of this kind.",
        unknown=("The previous values: an earlier DescribeConfigs or the controller's log shows them.",),
    ),
)  # fmt: skip
