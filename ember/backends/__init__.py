"""One folder a backend; `base` holds the three classes that a new one fills in, and the registry."""
