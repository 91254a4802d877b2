"""What is written is read back, and no bytes raise anything else than an error of the protocol."""
