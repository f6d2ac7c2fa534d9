"""PII detection: detectors measured by labels, and de-identified text by what it still names."""
