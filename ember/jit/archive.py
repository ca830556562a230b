"""placeholder"""


def load(*a, **k): ...
