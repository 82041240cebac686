"""Provide what a process of the service needs: caches, logs, heartbeats, child processes, points to kill it in tests."""
