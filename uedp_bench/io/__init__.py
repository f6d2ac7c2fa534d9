"""Reading and writing safely: limits, links, locks, atomic writes, digests, processes."""
