"""The settings of `torch.compiler`: kept where they can be read back, without effect today."""

job_id: str | None = None
pgo_extra_read_key: str | None = None
pgo_extra_write_key: str | None = None
cache_key_tag = ""
force_disable_caches = False
dynamic_sources = ""
unbacked_sources = ""
