"""Rules that inject faults into traffic: a rule has a match, an action and a trigger (see docs/faults.md).

    rule = parse("api == Produce => error NOT_LEADER_OR_FOLLOWER not applied, nth 2")
    engine = Engine([rule], definitions, warn, clock)

This package is sans-IO: it has no socket and no clock of its own. `kproxy.core.acting` carries out its verdicts.
"""
