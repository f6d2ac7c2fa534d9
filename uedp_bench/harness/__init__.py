"""From a spec to a result: specs, grids, processes, one run, and what is kept of it."""
