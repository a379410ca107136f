"""Random programs that fail and are retried in place, held to what the pages say that anyone may observe.

The programs are trees of steps, groups, sub-flows, events, locks and sleeps. Commands and code of some nodes are broken
until a deployment mends them. Meanwhile runs are retried, by every plan, beside events and second deliveries, and with
commits that do not arrive, that lose their answer, and before which another operation lands. In some seeds code is
deployed for a while that fits no run: then a retry cannot continue, and the run has its first error and its whole log
again. Whenever the code fits, the logs of all runs that continue can be replayed, as before a deployment.
"""
