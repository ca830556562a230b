"""Parts of the launcher under the names that PyTorch has for them; see `ember.distributed.run`."""
