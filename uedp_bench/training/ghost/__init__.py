"""Per-unit clipping in one backward pass: norms and weighted sums without per-unit gradients.

`gradients` holds the two factors of each gradient and the weights that write them down,
`operations` knows the uses of weights, `norms` bounds a gradient's length by unit, and
`single_pass` clips a share.
"""
