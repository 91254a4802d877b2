"""Programs that host real Python consumers; each is started as a process of its own by `tests.interop.members`."""
