"""Tests of Bellwether; the folders mirror what they test."""
