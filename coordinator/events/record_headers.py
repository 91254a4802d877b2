"""Names of headers of records. What a header has need not be in a schema, so that releases that do not know it still
read the record."""

ERROR_HEADER = "standard-error"  # of a weight: that of its bytes_per_s, in the same unit, as text
