"""Whole steps recorded once and replayed without their Python: what `torch.compile` stands on.

`recorder` writes down the calls of a function while it runs. `passes` and `fusion` make fewer of
them. `program` gives what they compute a planned place in memory and binds each call to its arrays.
`guards` says what a recording depends on. `gradients` records the backward pass of results that
need one. `compiled` puts them together: it finds the program of a call's arguments, or records one,
or runs eagerly where neither can be right.
"""
