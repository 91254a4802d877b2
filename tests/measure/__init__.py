"""Programs that measure, prove and show: `python -m tests.measure.NAME`, or a target of the Makefile.

pytest collects none of them; tests in other folders try some of them on a small scale.
"""
