"""Run the Celery workers and the scheduler. A task carries ids, never content."""
