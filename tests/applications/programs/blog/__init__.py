"""An application of Django's: see `models.py`."""
