"""Physical nodes become readable Python source of their batch loops.

Operators in `_operators` hold state and take such a loop as an argument. `rows.py` says how a loop reads its input,
`expressions.py` writes expressions, `aggregates.py` the updates of aggregates; the other modules each write the loop of
one operator. `source.py` compiles what they wrote so that tracebacks and profilers show it.
"""
