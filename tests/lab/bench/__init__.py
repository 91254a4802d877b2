"""The benchmark beside the JVM; nothing in here is a timed test."""
