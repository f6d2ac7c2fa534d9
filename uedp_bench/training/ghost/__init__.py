"""Per-unit clipping in one backward pass: norms and weighted sums without per-unit gradients.

`watched` sees how a network uses its weights, `operations` knows the uses, `gradients` holds the
two factors of each gradient, `norms` bounds its length by unit, `single_pass` clips a share, and
`probe` looks at a network before it is trained.
"""
