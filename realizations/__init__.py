"""How a phase may become code: what is legal, what it costs in events, how it is emitted. Prices nothing."""
