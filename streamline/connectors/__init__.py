"""Connectors to systems outside: one module a system. Imports values, contracts and errors only.

Nothing here is imported before it is needed: SQL finds connectors by name through `registry`.
"""
