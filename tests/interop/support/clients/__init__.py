"""Programs that host real Python consumers; `tests.interop.support.members` starts each as a process of its own."""
