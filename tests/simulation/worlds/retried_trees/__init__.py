"""Random programs that fail and are retried in place, held to what the pages say that anyone may observe.

The programs are trees of steps, groups, sub-flows, events, locks and sleeps. Commands and code of some nodes are broken
until a deployment mends them. Meanwhile runs are retried, by every plan, beside events and second deliveries, and with
commits that do not arrive, that lose their answer, and before which another operation lands.
"""
