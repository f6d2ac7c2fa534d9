"""The front page: what the results say, in sentences, and which mechanism fits what."""
