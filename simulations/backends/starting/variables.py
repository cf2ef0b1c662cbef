"""The environment variables with which Ray is started, or found, and its processes are."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # What the raylet has to say of processes goes to standard output otherwise: the engine's errors say it.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    # Many actors on few cores are meant.
    "RAY_worker_maximum_startup_concurrency": "100000",
    # A record of every call, for the dashboard: 3 kB each, up to 100,000 of them.
    "RAY_task_events_report_interval_ms": "0",
}
NICENESS = "RAY_worker_niceness"
"""Ray's own is 15: whatever else the machine does then takes the cores, and actors wait for one another for minutes."""

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""With this, as is the default on these systems, nothing of a Ray listens to other machines."""
