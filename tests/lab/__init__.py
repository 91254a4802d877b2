"""Programs that measure, prove and show; README.md lists them.

pytest collects none of them; tests in other folders try some of them on a small scale.
"""
