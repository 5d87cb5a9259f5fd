"""Nearest entries of one scope: `partitions` (in memory, exact), `faiss` (for a large scope), `snapshot` (on disk)."""
