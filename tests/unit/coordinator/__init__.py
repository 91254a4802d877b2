"""Tests of the coordinator; the files mirror its modules."""
