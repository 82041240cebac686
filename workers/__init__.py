"""The muscle: Celery workers and the clock that wakes them. A task carries ids, never content."""
