"""One rewrite a file: a function from a node (and what is known of the plan) to another node, or None.

`optimize.STAGES` says in which order they are tried.
"""
