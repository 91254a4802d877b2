"""`make demo`: embedded brokers, real consumers, and Bellwether leading them."""
