"""Many runs: processes side by side, shares, failures."""
