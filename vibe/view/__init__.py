"""The view of everything that was announced: it turns events into runs, plans, agents and requests.

No clock, no I/O.
"""
