"""The training engine: sampling, per-unit clipping, noise, federated averaging."""
