"""Two parties that compute a network's answer and show each other nothing else."""
