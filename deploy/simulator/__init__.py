"""Simulated vLLM workers, to try routing on many of them with one core and no model.

`blocks`: the KV blocks of one worker · `engine`: one worker, in whatever time its caller keeps · `traces`: who asks
what, and when."""
