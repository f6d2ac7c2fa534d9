"""The glossary: what columns, words and mechanisms of the pages mean."""
