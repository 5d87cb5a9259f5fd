"""Where entries are kept: `memory` (one life), `sqlite` (one process, durable), `redis` (shared by replicas)."""
