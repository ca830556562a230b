"""What programs import of `torch.fx.experimental`."""
