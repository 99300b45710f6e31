"""L1: keyed and operator state, timers, snapshots and where they are stored. Imports _core and abc."""
