"""Translation: pairs of texts, learnt by any mechanism and scored on whole sentences."""
