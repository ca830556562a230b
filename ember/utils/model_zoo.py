"""Older names of what `torch.hub` downloads with."""

from tqdm import tqdm

from ember.hub import download_url_to_file as _download_url_to_file
from ember.hub import load_state_dict_from_url as load_url

__all__ = ["_download_url_to_file", "load_url", "tqdm"]
