"""How long collectives wait unless a group says otherwise."""

from ember.distributed.world import default_pg_nccl_timeout, default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]
