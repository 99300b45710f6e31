"""L1: movement. Bounded channels, outputs that fan out, gates that merge. Imports _core and abc."""
