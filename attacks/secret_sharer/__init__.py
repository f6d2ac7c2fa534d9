"""The secret sharer: canaries, exposure and extraction."""
